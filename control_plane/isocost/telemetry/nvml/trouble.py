"""What keeps the loops from reading, in the log: once when it begins, once when all is well."""

from __future__ import annotations

import logging

#: Different warnings that are remembered as told; later ones are not told at all.
MAX_WARNINGS = 256

log = logging.getLogger(__name__)


class Trouble:
    """Of one loop or several; what both say is told once."""

    def __init__(self) -> None:
        self._errors: dict[str, str] = {}
        self._well = False
        self._warned: set[str] = set()

    def tell(self, loop: str, error: str) -> None:
        """What is wrong with a loop now, or ""."""
        if self._errors.get(loop) == error:
            return
        known = error in self._errors.values()
        self._errors[loop] = error
        if error and not known:
            log.warning("no GPU telemetry: %s", error)
        well = not any(self._errors.values())
        if well and not self._well:
            log.info("NVML answers: the GPUs are read")
        self._well = well

    def warn(self, warning: str) -> None:
        """Log it the first time."""
        if warning not in self._warned and len(self._warned) < MAX_WARNINGS:
            self._warned.add(warning)
            log.warning("%s", warning)
