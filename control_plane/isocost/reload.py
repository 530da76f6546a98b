"""Takes a daemon's configuration anew while it runs: when the file changes, and on SIGHUP.

All or nothing: a file that is bad, or that changes what only a start can change, is refused as a
whole, and what was in force stays.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from pydantic import BaseModel

from isocost import daemon_thread
from isocost.config_file import read
from isocost.config_source import Config, Loaded
from isocost.errors import ConfigError, FieldError
from isocost.files import Identity, identity

#: How often the file is looked at, and for how long it must then say the same: an editor or a tool
#: that writes it piece by piece is done by then. Together with the reading less than two seconds.
LOOK_S = 0.5
STEADY_S = 0.7

#: What a reading can come to. ``unchanged``: the file says again what is in force.
RESULTS = ("applied", "unchanged", "refused")

_NEVER = object()

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refused:
    """A configuration that is not in force, and why."""

    at_unix_s: float
    error: ConfigError


@dataclass(frozen=True)
class _Look:
    """The file as it was found: what changes when it is written or replaced (also behind a link),
    and its text, or why there is none.
    """

    identity: Identity | None
    text: str
    error: ConfigError | None

    def same(self, other: _Look) -> bool:
        return self.text == other.text and str(self.error) == str(other.error)


class Reload(Generic[Config]):
    """``loaded`` is in force. ``live``: the dotted fields that ``apply`` can change, with all that
    is below them.
    """

    def __init__(
        self, loaded: Loaded[Config], live: Set[str], apply: Callable[[Config], None]
    ) -> None:
        """``apply`` is called in the loop, between its other work, and must not fail half-way."""
        self.loaded = loaded
        self._live = live
        self._apply = apply
        self._asked = asyncio.Event()
        #: The last reading, if it was refused.
        self.refused: Refused | None = None
        #: Readings since the start of this process, by what they came to.
        self.results: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))

    def ask(self) -> None:
        """Read the file again, whether it changed or not: SIGHUP."""
        if self.loaded.source.path is None:
            log.warning("asked to read the configuration again, but it is from no file")
        self._asked.set()

    async def run(self) -> None:
        """Follow the file until cancelled."""
        path = self.loaded.source.path
        if path is None:
            await asyncio.Event().wait()
            return
        # What was in force before is the text of the start, whenever that file was written.
        seen: object = _NEVER
        while True:
            asked = await self._asked_soon()
            if not asked and await daemon_thread.call(identity, path) == seen:
                continue
            look = await _steady(path)
            seen = look.identity
            await self._take(look, asked)

    async def _asked_soon(self) -> bool:
        """Wait for the next look; was it asked for?"""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True

    async def _take(self, look: _Look, asked: bool) -> None:
        """Put what was read in force, or refuse it."""
        source, before = self.loaded.source, self.loaded
        if look.error is not None:
            self._refuse(look.error)
            return
        if look.text == before.text:
            if asked or self.refused is not None:
                self.refused = None
                self.results["unchanged"] += 1
                log.info("%s says what is in force already", source.name)
            return
        try:
            if not look.text.strip():
                # Of a daemon that runs with another one, that is hardly meant.
                raise ConfigError(source.name, [FieldError("(file)", None, "it is empty")])
            loaded = await daemon_thread.call(source.parse, look.text)
            fields = list(changed(before.config, loaded.config))
            self._require_live(loaded, fields)
            with source.naming():
                self._apply(loaded.config)
        except ConfigError as error:
            self._refuse(error)
            return
        self.loaded, self.refused = loaded, None
        self.results["applied"] += 1
        log.info(
            "the configuration in %s is in force; changed: %s",
            source.name,
            ", ".join(fields) or "nothing that counts",
            extra={"changed": fields},
        )

    def _require_live(self, loaded: Loaded[Config], fields: list[str]) -> None:
        errors = [
            FieldError(field, None, "it changed, and takes effect only after a restart")
            for field in fields
            if not any(field == name or field.startswith(f"{name}.") for name in self._live)
        ]
        if errors:
            raise ConfigError(loaded.source.name, errors)

    def _refuse(self, error: ConfigError) -> None:
        self.refused = Refused(time.time(), error)
        self.results["refused"] += 1
        log.error(
            "the configuration is refused, the one in force stays: %s",
            error,
            extra={"refused": [item.field for item in error.fields]},
        )


def changed(before: BaseModel, after: BaseModel, prefix: str = "") -> Iterator[str]:
    """The dotted fields that differ; a list or a mapping counts as one field."""
    for name in type(before).model_fields:
        old, new = getattr(before, name), getattr(after, name)
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            yield from changed(old, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name}"


async def _steady(path: Path) -> _Look:
    """The file once it says the same twice, STEADY_S apart."""
    before = await daemon_thread.call(_look, path)
    while True:
        await asyncio.sleep(STEADY_S)
        now = await daemon_thread.call(_look, path)
        if now.same(before):
            return now
        before = now


def _look(path: Path) -> _Look:
    found = identity(path)
    try:
        return _Look(found, read(path), None)
    except ConfigError as error:
        return _Look(found, "", error)
