"""A straight line per node, y = a0 + a * x, learned from sums and forgotten exponentially.

A node with few observations borrows from its pool (the nodes that should be alike), and a pool with
few from a prior. A node whose last two seconds contradict what was believed of it, as measured
against its pool, is learned anew: a card that throttles must not wait for the memory to fade.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.observe.batch import LineSums
from isocost.observe.window import grown

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

_KINDS = len(LineSums._fields)
_N, _X, _XX, _Y, _XY = range(_KINDS)

#: Half of what is known is forgotten in this time: a few hundred observations of a busy node, which
#: is enough for a slope and recent enough for a model that was swapped.
HALF_LIFE_S = 20.0
#: What is compared with it.
_SHORT_HALF_LIFE_S = 1.5

#: A pool without traffic keeps this many observations: a fleet that rested is as fast as before.
_KEPT = 20.0
#: Observations after which a pool counts as learned.
LEARNED = 5.0

#: What the prior is worth to a pool, and the pool's line at the node's level to a node, in
#: observations. Times scatter in proportion to themselves, so that the few longest prompts decide a
#: node's own slope, while its level counts them all.
_PRIOR_WORTH = 5.0
_POOL_WORTH = 150.0
#: In how many observations a node's own level (its times over those that its pool's line gives)
#: counts half.
_LEVEL_WORTH = 3.0

#: Single times scatter by about this factor's logarithm around their line.
_SCATTER = 0.5
#: A contradiction is believed if chance would show it once in a thousand times, and if it is large.
_BELIEVED = 3.0
_LARGE = 1.4

#: A pool whose x hardly varies shows no slope: its nodes' own are worth no more than this part of
#: the usual spread lets them.
_LEAST_SPREAD = 0.01
_ROUNDING = 1e-9

#: A node is at most so much faster than the prior: no time is ever predicted as nothing.
_FASTEST = 0.01


@dataclass(frozen=True)
class Slopes:
    """Of n nodes: the slope a in seconds per unit of x, always above 0; whether its pool has been
    learned from; and how many observations of its own stand behind it (forgotten ones fade).
    """

    slope: Floats
    learned: NDArray[np.bool_]
    observations: Floats


class SlopeLearner:
    """One row per node; rows are given out by the owner, who calls ``grow`` before it uses one.
    Times are monotonic seconds.
    """

    def __init__(self, prior: float, typical_x: float) -> None:
        """``prior``: the slope of what nobody knows, seconds per unit of x. ``typical_x``: how far
        x usually varies; the prior is worth some observations spread like that.
        """
        self._prior = prior
        self._typical_xx = typical_x * typical_x
        self._long = np.zeros((0, _KINDS))
        self._short = np.zeros((0, _KINDS))
        self._new = np.zeros((0, _KINDS))
        #: When the node was last learned anew.
        self._since_s = np.zeros(0)
        self._at_s: float | None = None

    def add(self, rows: Rows, sums: Floats) -> None:
        """Add sums [m, 5] (the fields of LineSums) to ``rows`` [m]."""
        np.add.at(self._new, rows, sums)

    def update(self, rows: Rows, pools: Rows, now_s: float) -> Slopes:
        """What is known at ``now_s`` of ``rows`` [n], each in the pool of its number in ``pools``
        [n]. Call it once per tick.
        """
        passed_s = 0.0 if self._at_s is None else max(now_s - self._at_s, 0.0)
        self._at_s = now_s
        self._fade(rows, pools, passed_s, now_s)
        self._long += self._new
        self._short += self._new
        self._new[:] = 0.0
        line = _lines(self._long[rows], pools, self._prior, self._typical_xx)
        changed = _contradicted(self._short[rows], line, pools)
        if changed.any():
            self._long[rows[changed]] = self._short[rows[changed]]
            self._since_s[rows[changed]] = now_s
            line = _lines(self._long[rows], pools, self._prior, self._typical_xx)
        own = self._long[rows, _N]
        return Slopes(line.slope, _per_pool(own, pools)[pools] >= LEARNED, own)

    def grow(self, rows: int) -> None:
        have = len(self._since_s)
        self._since_s = grown(self._since_s, rows)
        self._since_s[have:] = -np.inf
        self._long, self._short = grown(self._long, rows), grown(self._short, rows)
        self._new = grown(self._new, rows)

    def keep(self, rows: Rows) -> None:
        """Keep the given rows only, in the given order."""
        self._long, self._short = self._long[rows], self._short[rows]
        self._new, self._since_s = self._new[rows], self._since_s[rows]

    def _fade(self, rows: Rows, pools: Rows, passed_s: float, now_s: float) -> None:
        self._short *= 0.5 ** (passed_s / _SHORT_HALF_LIFE_S)
        # What is learned anew began with times from before the change: they go first.
        half_life_s = np.clip((now_s - self._since_s) / 2.0, _SHORT_HALF_LIFE_S, HALF_LIFE_S)
        left = 0.5 ** (passed_s / half_life_s)
        of_pool = _per_pool(self._long[rows, _N], pools)
        least = np.minimum(_KEPT / np.maximum(of_pool, _KEPT), 1.0)
        left[rows] = np.maximum(left[rows], least[pools])
        self._long *= left[:, np.newaxis]


@dataclass(frozen=True)
class _Lines:
    intercept: Floats
    slope: Floats


def _per_pool(values: Floats, pools: Rows) -> Floats:
    """Sums by pool, [number of pools]."""
    result: Floats = np.zeros(int(pools.max(initial=-1)) + 1)
    np.add.at(result, pools, values)
    return result


def _lines(sums: Floats, pools: Rows, prior: float, typical_xx: float) -> _Lines:
    """Least squares per node, shrunk to the pool's line, and that to the prior."""
    count, x, y = sums[:, _N], sums[:, _X], sums[:, _Y]
    some = np.maximum(count, 1e-12)
    # Spread around each node's own means, so that an intercept of its own is taken out. What does
    # not rise with x at all is no evidence for a node faster than nothing.
    xx = np.maximum(sums[:, _XX] - x * x / some, 0.0)
    xy = np.maximum(sums[:, _XY] - x * y / some, 0.0)
    # Of observations that are all alike only rounding is left.
    alike = xx <= _ROUNDING * sums[:, _XX]
    xx[alike] = xy[alike] = 0.0
    pool_xx = _per_pool(xx, pools)
    pool_n = np.maximum(_per_pool(count, pools), 1e-12)
    prior_xx = _PRIOR_WORTH * typical_xx
    pool_slope = (_per_pool(xy, pools) + prior_xx * prior) / (pool_xx + prior_xx)
    pool_slope = np.maximum(pool_slope, _FASTEST * prior)
    pool_start = np.maximum(_per_pool(y, pools) - pool_slope * _per_pool(x, pools), 0.0) / pool_n
    expected = pool_start[pools] * count + pool_slope[pools] * x
    mean = (pool_start + pool_slope * _per_pool(x, pools) / pool_n)[pools]
    credit = _LEVEL_WORTH * np.where(mean > 0.0, mean, 1.0)
    level = (y + credit) / (expected + credit)
    spread = (pool_xx / pool_n)[pools]
    worth = _POOL_WORTH * np.maximum(spread, _LEAST_SPREAD * typical_xx)
    slope = (xy + worth * pool_slope[pools] * level) / (xx + worth)
    slope = np.maximum(slope, _FASTEST * prior)
    start = np.where(count > 0.0, np.maximum(y - slope * x, 0.0) / some, pool_start[pools])
    return _Lines(start, slope)


def _contradicted(short: Floats, line: _Lines, pools: Rows) -> NDArray[np.bool_]:
    """Whose last times are far from their line while those of the rest of the pool are not? Load
    that makes all of them slower is no news of one.
    """
    count, y = short[:, _N], short[:, _Y]
    expected = line.intercept * count + line.slope * short[:, _X]
    others = _per_pool(y, pools)[pools] - y
    others_expected = _per_pool(expected, pools)[pools] - expected
    one = np.ones_like(y)
    own_ratio = np.divide(y, expected, out=one.copy(), where=(expected > 0.0) & (y > 0.0))
    compared = (others_expected > 0.0) & (others > 0.0)
    ratio = np.divide(others, others_expected, out=one, where=compared)
    moved = np.abs(np.log(own_ratio / ratio))
    # Of many short times and a long one only the long one counts: as good as one observation.
    squares = (
        line.intercept**2 * count
        + 2.0 * line.intercept * line.slope * short[:, _X]
        + line.slope**2 * short[:, _XX]
    )
    good = np.divide(expected**2, squares, out=np.zeros_like(y), where=squares > 0.0)
    result: NDArray[np.bool_] = (moved > np.log(_LARGE)) & (
        moved * np.sqrt(good) > _BELIEVED * _SCATTER
    )
    return result
