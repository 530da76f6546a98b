"""Whose clock can be believed: document A's outage was one that was seconds off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isocost.score.columns import Floats
from isocost.weight.evidence import Flags
from isocost.weight.roster_change import moved

#: A clock that is further off is not believed. Less is nothing beside the seconds that a request is
#: open; chrony keeps clocks within a few milliseconds, and the way of a report takes some more.
CLOCK_SKEW_S = 0.1

#: One report that was late looks like a clock that is behind; three in a row are none.
_TICKS = 3


class ClockWatch:
    """Remembers for how many ticks in a row each node's clock was off, or right."""

    def __init__(self) -> None:
        self._ticks = np.zeros(0, dtype=np.intp)
        self._skewed = np.zeros(0, dtype=np.bool_)

    def rearrange(self, former: NDArray[np.intp]) -> None:
        """Follow a new roster: ``former`` [n] is each node's place in the old one, -1 = none."""
        self._ticks = moved(self._ticks, former, 0)
        self._skewed = moved(self._skewed, former, False)

    def update(self, offset_s: Floats) -> tuple[Flags, Flags]:
        """Which nodes' ages are believed, and whose clock is off for sure, each [n]. ``offset_s``
        [n] is each node's clock less this machine's, NaN = not known: not believed either.
        """
        near = np.abs(offset_s) <= CLOCK_SKEW_S
        off = np.abs(offset_s) > CLOCK_SKEW_S
        changing = np.where(self._skewed, near, off)
        self._ticks = np.where(changing, self._ticks + 1, 0)
        turned = self._ticks >= _TICKS
        self._skewed = np.where(turned, ~self._skewed, self._skewed)
        self._ticks[turned] = 0
        return near & ~self._skewed, self._skewed.copy()
