"""Which nodes are not as fast as the rest of their pool.

Nodes of a pool are alike unless there is strong evidence: single times scatter by a factor of two,
and a prompt that waits behind others that nobody knew of takes many times as long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isocost.observe.window import grown

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

#: So many ticks in which the node answered are remembered, ...
_TICKS = 12
#: ... and so many of them must be there and say the same: those of one burst do not.
_AGREEING = 8

#: Within this (in logarithms: 57 %) of the pool's it is chance; from 120 % on all of it counts.
_CHANCE = 0.45
_TO_FULL = 0.35

#: What was learned of a node that gets no requests, as a slow one does while there is little to do,
#: is forgotten by half in this time: it must be asked again to show that it is as fast as before.
_HALF_LIFE_S = 60.0


def _middle(ranked: Floats) -> Floats:
    """The medians of rows [n, an even number] that are sorted."""
    place = ranked.shape[1] // 2
    return (ranked[:, place - 1] + ranked[:, place]) / 2.0


class Levels:
    """One row per node; rows are given out by the owner, who calls ``grow`` before it uses one."""

    def __init__(self) -> None:
        #: Of the present tick.
        self._count, self._log_sum = np.zeros(0), np.zeros(0)
        #: Of the last ticks: by which factor's logarithm times were longer than the pool's line.
        self._last = np.zeros((0, _TICKS))
        self._ticks = np.zeros(0, dtype=np.intp)
        #: Time since each answered.
        self._idle_s = np.zeros(0)

    def add(self, rows: Rows, count: Floats, log_ratio: Floats) -> None:
        """``count`` [m] times, on average exp(``log_ratio``) [m] times as long as the pool's."""
        np.add.at(self._count, rows, count)
        np.add.at(self._log_sum, rows, count * log_ratio)

    def update(self, rows: Rows, pools: Rows, passed_s: float) -> Floats:
        """By which factor the times of ``rows`` [n] are longer than usual for their pool, [n]. Call
        it once per tick, ``passed_s`` after the last one.
        """
        new = np.flatnonzero(self._count)
        self._idle_s += passed_s
        self._idle_s[new] = 0.0
        self._last[new, self._ticks[new] % _TICKS] = self._log_sum[new] / self._count[new]
        self._ticks[new] += 1
        self._count[:] = self._log_sum[:] = 0.0
        known = self._ticks[rows] >= _TICKS
        last = np.sort(self._last[rows], axis=1)
        low, middle, high = (
            values - _usual(values, known, pools)
            for values in (last[:, -_AGREEING], _middle(last), last[:, _AGREEING - 1])
        )
        sure = np.maximum(low, 0.0) - np.minimum(high, 0.0)
        part = np.clip((sure - _CHANCE) / _TO_FULL, 0.0, 1.0)
        part *= 0.5 ** (self._idle_s[rows] / _HALF_LIFE_S)
        result: Floats = np.exp(np.where(known, middle, 0.0) * part)
        return result

    def forget(self, rows: Rows) -> None:
        """As if these nodes were new."""
        self._ticks[rows] = 0

    def grow(self, rows: int) -> None:
        self._count, self._log_sum = grown(self._count, rows), grown(self._log_sum, rows)
        self._last, self._ticks = grown(self._last, rows), grown(self._ticks, rows)
        self._idle_s = grown(self._idle_s, rows)

    def keep(self, rows: Rows) -> None:
        """Keep the given rows only, in the given order."""
        self._count, self._log_sum = self._count[rows], self._log_sum[rows]
        self._last, self._ticks = self._last[rows], self._ticks[rows]
        self._idle_s = self._idle_s[rows]


def _usual(level: Floats, known: NDArray[np.bool_], pools: Rows) -> Floats:
    """The median of each node's pool, of two the faster; of a pool with one node the fleet's: what
    slows all of them is no news of one.
    """
    fleet = _lower_median(level[known])
    result = np.full_like(level, fleet)
    for pool in range(int(pools.max(initial=-1)) + 1):
        members = pools == pool
        if np.count_nonzero(members) > 1:
            result[members] = _lower_median(level[members & known])
    return result


def _lower_median(values: Floats) -> float:
    place = (values.size - 1) // 2
    return float(np.partition(values, place)[place]) if values.size else 0.0
