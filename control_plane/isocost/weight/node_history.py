"""What one number of each node was in the last seconds, and what is usual there."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isocost.score.columns import Floats
from isocost.weight.evidence import Flags

#: A value counts as no farther from the mean than so many of the usual distances, ...
_MOST = 5.0
#: ... once so many values have shown what is usual.
_SETTLED = 10.0

Counts = NDArray[np.intp]
Scalar = TypeVar("Scalar", bound=np.generic)


class LastValues:
    """The last values of n nodes, at most ``most`` of each, with their times."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values, self._at_s = np.zeros((0, most)), np.zeros((0, most))
        #: Where each node's next one goes.
        self._next = np.zeros(0, dtype=np.intp)

    def rearrange(self, former: Counts) -> None:
        """Follow a new roster: ``former`` [n] is each node's place in the old one, -1 = none."""
        self._values = moved(self._values, former, math.nan)
        self._at_s = moved(self._at_s, former, -math.inf)
        self._next = moved(self._next, former, 0)

    def add(self, values: Floats, now_s: float) -> Floats:
        """Take ``values`` [n], NaN = none; the ones that make room for them, [n], NaN = none."""
        left = np.full_like(values, math.nan)
        new = np.flatnonzero(~np.isnan(values))
        place = self._next[new]
        left[new] = self._values[new, place]
        self._values[new, place], self._at_s[new, place] = values[new], now_s
        self._next[new] = (place + 1) % self._most
        return left

    def reached_by(self, part: float, since_s: float) -> tuple[Floats, Counts]:
        """Of the values after ``since_s``, [n]: the largest that at least ``part`` in (0,1] of them
        reach, NaN without any; and how many they are.
        """
        fresh = self._at_s > since_s
        count = np.count_nonzero(fresh, axis=1)
        ordered = np.sort(np.where(fresh, self._values, math.inf), axis=1)
        place = np.maximum(count - np.ceil(part * count).astype(np.intp), 0)
        value = np.take_along_axis(ordered, place[:, np.newaxis], axis=1)[:, 0]
        return np.where(count > 0, value, math.nan), count

    def mean(self, since_s: float) -> Floats:
        """Of the values after ``since_s``, [n]: NaN without any."""
        fresh = self._at_s > since_s
        count = np.count_nonzero(fresh, axis=1)
        total: Floats = np.sum(self._values, axis=1, where=fresh)
        nothing = np.full_like(total, math.nan)
        result: Floats = np.divide(total, count, out=nothing, where=count > 0)
        return result

    def forget(self, nodes: Flags) -> None:
        self._values[nodes], self._at_s[nodes] = math.nan, -math.inf


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
        """Follow a new roster, as LastValues.rearrange."""
        self.weight = moved(self.weight, former, 0.0)
        self._sum = moved(self._sum, former, 0.0)
        self._distances = moved(self._distances, former, 0.0)

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


def moved(array: NDArray[Scalar], former: Counts, new: float) -> NDArray[Scalar]:
    """The rows at their new places; ``new`` is what nodes have that were not there."""
    result = np.full((len(former), *array.shape[1:]), new, dtype=array.dtype)
    old = former >= 0
    result[old] = array[former[old]]
    return result
