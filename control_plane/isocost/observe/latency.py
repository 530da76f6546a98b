"""The last mean latency of each node: a node that gets no requests is not forgotten at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.observe.window import grown

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Latency:
    """Mean latency of n nodes, [n]: NaN where never observed. ``age_s`` is 0 where the window holds
    observations, else the time since it held the last one; infinite where never observed.
    """

    mean_ms: Floats
    age_s: Floats

    def of(self, rows: NDArray[np.intp]) -> Latency:
        return Latency(self.mean_ms[rows], self.age_s[rows])


class LastMeans:
    """One row per node; rows are given out by the owner, who calls ``grow`` before it uses one."""

    def __init__(self) -> None:
        #: The mean and when it was last true; NaN and -inf where never observed.
        self._mean_ms = np.zeros(0)
        self._at_s = np.zeros(0)

    def update(self, sums_ms: Floats, counts: Floats, now_s: float) -> Latency:
        """The latencies after a window's sums and counts, [rows]."""
        measured = counts > 0
        self._mean_ms[measured] = sums_ms[measured] / counts[measured]
        self._at_s[measured] = now_s
        return Latency(self._mean_ms.copy(), now_s - self._at_s)

    def grow(self, rows: int) -> None:
        have = len(self._at_s)
        self._mean_ms, self._at_s = grown(self._mean_ms, rows), grown(self._at_s, rows)
        self._mean_ms[have:], self._at_s[have:] = math.nan, -math.inf

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Keep the given rows only, in the given order."""
        self._mean_ms, self._at_s = self._mean_ms[rows], self._at_s[rows]
