"""Keeps a misbehaving client from filling the log: one line per subject and period."""

from __future__ import annotations

import logging
from collections.abc import Callable

#: Long enough that a client refused five times a second is a line to read, not a flood.
PERIOD_S = 10.0


class LimitedLog:
    """Warnings that say how many alike were left out before them."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        self._last: dict[str, tuple[float, int]] = {}

    def warn(self, subject: str, message: str, **fields: object) -> None:
        """Log, with ``fields``, unless a line on ``subject`` was written within the period.

        Subjects are remembered for ever: take them from a small fixed set.
        """
        now_s = self._clock()
        written_s, left_out = self._last.get(subject, (float("-inf"), 0))
        if now_s - written_s < PERIOD_S:
            self._last[subject] = (written_s, left_out + 1)
            return
        self._last[subject] = (now_s, 0)
        more = f" ({left_out} more like it before)" if left_out else ""
        self._logger.warning("%s%s", message, more, extra=fields)
