"""GPUs that do not answer one of the readers: left out, so that it can read the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Generic

from isocost.telemetry.nvml.sample import Item, Round, aged

#: A GPU is tried again after this, then after twice as long each time: for each try the others are
#: not read for a few seconds.
RETRY_MIN_S = 5.0
RETRY_MAX_S = 300.0


class HungGpus(Generic[Item]):
    """By index in NVML's list; times are monotonic. What was read of them last stays, stale."""

    def __init__(self) -> None:
        self._retry_at_s: dict[int, float] = {}
        self._waits_s: dict[int, float] = {}
        #: By UUID, with its index and the time at which it was read.
        self._last: dict[str, tuple[Item, int, float]] = {}

    @property
    def skipped(self) -> tuple[int, ...]:
        return tuple(sorted(self._retry_at_s))

    def add(self, index: int, last: Mapping[str, Item], taken_s: float, now_s: float) -> float:
        """It does not answer; ``last`` is what was read of it and its slices. How long it is left
        out.
        """
        wait_s = self._waits_s.get(index, RETRY_MIN_S / 2) * 2
        wait_s = self._waits_s[index] = min(wait_s, RETRY_MAX_S)
        self._retry_at_s[index] = now_s + wait_s
        for uuid, item in last.items():
            self._last.setdefault(uuid, (item, index, taken_s))
        return wait_s

    def retry(self, now_s: float) -> bool:
        """Is it time to try them all again?"""
        if not self._retry_at_s or now_s < min(self._retry_at_s.values()):
            return False
        self._retry_at_s.clear()
        return True

    def completed(
        self, found: Round[Item], indices: Mapping[str, int], skipped: Collection[int]
    ) -> Round[Item]:
        """A round with what was read last of those that it left out, ``skipped``; ``indices`` of
        those in it, which answer again. One that was asked for and is not in it is gone.
        """
        for uuid, index in indices.items():
            self._last.pop(uuid, None)
            self._waits_s.pop(index, None)
        if not found.error:
            self._last = {uuid: last for uuid, last in self._last.items() if last[1] in skipped}
        if not self._last:
            return found
        gpus: list[Any] = list(found.gpus)
        for item, _, at_s in self._last.values():
            gpus.append(aged(item, found.taken_s - at_s, fresh=False))
        return dataclasses.replace(found, gpus=tuple(gpus))
