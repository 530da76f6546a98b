"""Sums over a sliding window, one row per node, in buckets of a tenth of the window."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_BUCKETS = 10

Scalar = TypeVar("Scalar", bound=np.generic)


class SlidingSums:
    """Sums of several kinds of numbers per row; what is older than the window is forgotten.

    Rows are given out by the owner, who calls ``grow`` before it uses new ones.
    """

    def __init__(self, window_s: float, kinds: int) -> None:
        self._bucket_s = window_s / _BUCKETS
        #: Bucket by bucket, so that whole ones are added up.
        self._sums = np.zeros((_BUCKETS, 0, kinds))
        self._tick = 0

    def add(self, rows: NDArray[np.intp], values: NDArray[np.float64], now_s: float) -> None:
        """Add ``values`` [m, kinds] to ``rows`` [m]; a row may occur more than once."""
        self._advance(now_s)
        np.add.at(self._sums[self._tick % _BUCKETS], rows, values)

    def totals(self, now_s: float) -> NDArray[np.float64]:
        """The sums over the window, [rows, kinds]."""
        self._advance(now_s)
        result: NDArray[np.float64] = self._sums.sum(axis=0)
        return result

    def configure(self, window_s: float) -> None:
        """Another window from now on, with what is known of it."""
        former, before_s, last = self._sums, self._bucket_s, self._tick
        self._bucket_s = window_s / _BUCKETS
        self._sums = np.zeros_like(former)
        self._tick = int(last * before_s / self._bucket_s)
        for passed in range(max(last - _BUCKETS + 1, 0), last + 1):
            tick = int(passed * before_s / self._bucket_s)
            if tick > self._tick - _BUCKETS:
                self._sums[tick % _BUCKETS] += former[passed % _BUCKETS]

    def grow(self, rows: int) -> None:
        """Have at least that many rows."""
        self._sums = np.ascontiguousarray(grown(self._sums.swapaxes(0, 1), rows).swapaxes(0, 1))

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Keep the given rows only, in the given order."""
        self._sums = np.take(self._sums, rows, axis=1)

    def _advance(self, now_s: float) -> None:
        """Empty the buckets whose turn has come again."""
        tick = int(now_s / self._bucket_s)
        for passed in range(max(self._tick, tick - _BUCKETS) + 1, tick + 1):
            self._sums[passed % _BUCKETS] = 0.0
        self._tick = max(self._tick, tick)


def grown(array: NDArray[Scalar], rows: int) -> NDArray[Scalar]:
    """The array with at least that many rows, new ones zero; doubled, so that it is rarely done."""
    have = array.shape[0]
    if rows <= have:
        return array
    size = max(rows, 2 * have)
    return np.concatenate((array, np.zeros((size - have, *array.shape[1:]), dtype=array.dtype)))
