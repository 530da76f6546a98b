"""What one number of each node was in the last seconds, and what is usual there."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from isocost.score.columns import Floats
from isocost.weight.evidence import Flags
from isocost.weight.roster_change import moved

#: A value counts as no farther from the mean than so many of the usual distances, ...
_MOST = 5.0
#: ... once so many values have shown what is usual.
_SETTLED = 10.0

Counts = NDArray[np.intp]


class LastTicks:
    """The values of n nodes in the last ``most`` ticks, NaN where a tick brought none."""

    def __init__(self, most: int) -> None:
        self._values = np.full((most, 0), math.nan)
        self._at_s = np.full(most, -math.inf)
        #: Where the next tick goes.
        self._next = 0

    def rearrange(self, former: Counts) -> None:
        """Follow a new roster: ``former`` [n] is each node's place in the old one, -1 = none."""
        self._values = moved(self._values.T, former, math.nan).T.copy()

    def add(self, values: Floats, now_s: float) -> Floats:
        """Take the ``values`` [n] of a tick; those of the tick that makes room for it, [n]."""
        left: Floats = self._values[self._next].copy()
        self._values[self._next], self._at_s[self._next] = values, now_s
        self._next = (self._next + 1) % len(self._at_s)
        return left

    def reached_by(self, part: float, since_s: float) -> tuple[Floats, Counts]:
        """Of the values after ``since_s``, [n]: the largest that at least ``part`` in (0,1] of them
        reach, NaN without any; and how many they are.
        """
        # NaN comes last.
        ordered = np.sort(self._values[self._at_s > since_s], axis=0)
        if not len(ordered):
            nothing = self._values[0]
            return np.full_like(nothing, math.nan), np.zeros(nothing.shape, dtype=np.intp)
        count = np.count_nonzero(~np.isnan(ordered), axis=0)
        place = np.maximum(count - np.ceil(part * count).astype(np.intp), 0)
        return np.take_along_axis(ordered, place[np.newaxis], axis=0)[0], count

    def mean(self, since_s: float) -> Floats:
        """Of the values after ``since_s``, [n]: NaN without any."""
        values = self._values[self._at_s > since_s]
        known = ~np.isnan(values)
        total: Floats = np.sum(values, axis=0, where=known)
        count = np.count_nonzero(known, axis=0)
        nothing = np.full_like(total, math.nan)
        result: Floats = np.divide(total, count, out=nothing, where=count > 0)
        return result

    def forget(self, nodes: Flags) -> None:
        self._values[:, nodes] = math.nan


class Usual:
    """A slow mean of n nodes' values, and their mean distance from it.

    A value is forgotten by half after ``half_life`` others, however long that takes: a rest changes
    nothing. One that is far off counts as less far, so that a few of them change little. Distances
    below ``least`` are taken for it there.
    """

    def __init__(self, half_life: float, least: float) -> None:
        self._kept = 0.5 ** (1.0 / half_life)
        self._least = least
        #: How many values are in the means, the old ones for less than one, [n].
        self.weight = np.zeros(0)
        self._sum, self._distances = np.zeros(0), np.zeros(0)

    @property
    def mean(self) -> Floats:
        """0 where nothing came, [n]."""
        return self._sum / np.maximum(self.weight, 1e-9)

    @property
    def distance(self) -> Floats:
        """[n]."""
        return self._distances / np.maximum(self.weight, 1e-9)

    def rearrange(self, former: Counts) -> None:
        """Follow a new roster, as LastTicks.rearrange."""
        self.weight = moved(self.weight, former, 0.0)
        self._sum = moved(self._sum, former, 0.0)
        self._distances = moved(self._distances, former, 0.0)

    def forget(self, nodes: Flags) -> None:
        self.weight[nodes] = self._sum[nodes] = self._distances[nodes] = 0.0

    def add(self, values: Floats) -> None:
        """Take ``values`` [n], NaN = none."""
        new = np.flatnonzero(~np.isnan(values))
        distance = np.maximum(self.distance[new], self._least)
        most = np.where(self.weight[new] < _SETTLED, math.inf, _MOST * distance)
        mean = self.mean[new]
        value = np.clip(values[new], mean - most, mean + most)
        self.weight[new] = self._kept * self.weight[new] + 1.0
        self._sum[new] = self._kept * self._sum[new] + value
        off = np.abs(value - self.mean[new])
        self._distances[new] = self._kept * self._distances[new] + off
