"""How fast each node works, learned from the times that the gateways saw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.observe.batch import Columns
from isocost.observe.levels import Floats, Levels, Rows
from isocost.observe.window import grown

#: Of a node that nobody has seen work: about an 8B model on one H100.
PRIOR_TOKEN_S = 1.0 / 15_000.0
PRIOR_OUTPUT_TOKEN_S = 0.015

#: What a first token takes beside its prompt, at most: the way through the server and the step that
#: is under way. Of shorter times it is half.
START_S = 0.025

#: Half of what is known is forgotten in this time: long enough that the mix of requests evens out,
#: recent enough for a model that was swapped.
_HALF_LIFE_S = 20.0
#: A pool without traffic keeps this many observations: a fleet that rested is as fast as before.
_KEPT = 20.0
#: Observations after which a pool counts as learned.
_LEARNED = 5.0
#: What a prior is worth, in observations, of prompts of this length.
_PRIOR_WORTH = 3.0
_PRIOR_TOKENS = 500.0

_PREFILLS, _TOKENS, _PREFILL_S, _ANSWERS, _OUTPUT_TOKEN_S = range(5)
_NUMBERS = ("prefill.n", "prefill.tokens", "prefill.seconds", "tpot_count", "tpot_ms_sum")


@dataclass(frozen=True)
class Speeds:
    """Of n nodes, each [n], above 0: seconds per pending prompt token and per token of an answer.
    They come from a prior where not ``learned``.
    """

    token_s: Floats
    output_token_s: Floats
    learned: NDArray[np.bool_]


@dataclass(frozen=True)
class TickTimes:
    """What one tick saw of n nodes, each [n]; NaN where nothing came. ``extra_s``: by how much
    first tokens came later, on average, than the tokens that were pending explain at the pool's
    speed; it may be negative. ``output_token_s``: seconds per token of the answers that ended.
    """

    extra_s: Floats
    output_token_s: Floats


class SpeedLearner:
    """One row per node; rows are given out by the owner, who calls ``grow`` before it uses one.

    Nodes of a pool share what is learned: all its times to the first token over all tokens that
    were pending, as a line would be bent by load, under which prompts wait longer and steps are
    longer as well. A node that differs from its pool does so by a factor on everything.
    """

    def __init__(self) -> None:
        #: Sums, with times as they would be at the pool's level.
        self._sums = np.zeros((0, 5))
        self._levels = Levels()
        #: Since they were taken last: the same sums without tokens, the seconds that are extra.
        self._tick = np.zeros((0, 4))
        #: Whose times to the first token say nothing of its speed.
        self._late = np.zeros(0, dtype=np.bool_)
        #: What was believed last: the pool's line and the node's level.
        self._start_s, self._token_s, self._level = np.zeros(0), np.zeros(0), np.zeros(0)
        self._at_s: float | None = None

    def add(self, rows: Rows, news: Columns) -> None:
        """Take what a batch says of ``rows`` [m]."""
        new = news.columns(_NUMBERS)
        new[:, _OUTPUT_TOKEN_S] /= 1e3
        expected_s = self._start_s[rows] * new[:, _PREFILLS] + self._token_s[rows] * new[:, _TOKENS]
        late = self._late[rows]
        seen = (new[:, _PREFILLS] > 0.0) & (new[:, _PREFILL_S] > 0.0) & ~late
        log_ratio = np.log(new[seen, _PREFILL_S] / expected_s[seen])
        self._levels.add(rows[seen], new[seen, _PREFILLS], log_ratio)
        extra_s = new[:, _PREFILL_S] - expected_s
        tick = np.column_stack((new[:, _PREFILLS], extra_s, new[:, [_ANSWERS, _OUTPUT_TOKEN_S]]))
        np.add.at(self._tick, rows, tick)
        new[late, : _PREFILL_S + 1] = 0.0
        new[:, [_PREFILL_S, _OUTPUT_TOKEN_S]] /= self._level[rows, np.newaxis]
        np.add.at(self._sums, rows, new)

    def update(
        self, rows: Rows, pools: Rows, now_s: float, late: NDArray[np.bool_] | None = None
    ) -> Speeds:
        """The speeds of ``rows`` [n] at ``now_s``; ``pools`` [n]: nodes that should be alike;
        ``late`` [n]: nodes whose network delays first tokens, which are as fast as their pool. Call
        it once per tick.
        """
        if late is not None:
            self._late[rows] = late
            self._levels.forget(rows[late])
        passed_s = 0.0 if self._at_s is None else max(now_s - self._at_s, 0.0)
        self._at_s = now_s
        self._fade(rows, pools, passed_s)
        count, tokens, prefill_s, answers, output_s = _per_pool(self._sums[rows], pools).T
        start_s = np.minimum(START_S, 0.5 * prefill_s / np.maximum(count, 1e-12))
        start_s[count == 0.0] = START_S
        prior_tokens = _PRIOR_WORTH * _PRIOR_TOKENS
        token_s = (prefill_s - start_s * count + prior_tokens * PRIOR_TOKEN_S) / (
            tokens + prior_tokens
        )
        output_token_s = (output_s + _PRIOR_WORTH * PRIOR_OUTPUT_TOKEN_S) / (answers + _PRIOR_WORTH)
        self._start_s[rows], self._token_s[rows] = start_s[pools], token_s[pools]
        level = self._level[rows] = self._levels.update(rows, pools, passed_s)
        return Speeds(
            token_s[pools] * level, output_token_s[pools] * level, count[pools] >= _LEARNED
        )

    def take(self, rows: Rows) -> TickTimes:
        """The times of ``rows`` [n] since this was asked last; once per tick."""
        prefills, extra_s, answers, output_s = self._tick[rows].T
        self._tick[rows] = 0.0
        return TickTimes(_mean(extra_s, prefills), _mean(output_s, answers))

    def grow(self, rows: int) -> None:
        have = len(self._level)
        self._sums, self._tick = grown(self._sums, rows), grown(self._tick, rows)
        self._start_s, self._token_s = grown(self._start_s, rows), grown(self._token_s, rows)
        self._level, self._late = grown(self._level, rows), grown(self._late, rows)
        self._start_s[have:], self._token_s[have:], self._level[have:] = START_S, PRIOR_TOKEN_S, 1.0
        self._levels.grow(rows)

    def keep(self, rows: Rows) -> None:
        """Keep the given rows only, in the given order."""
        self._sums, self._level = self._sums[rows], self._level[rows]
        self._tick, self._late = self._tick[rows], self._late[rows]
        self._start_s, self._token_s = self._start_s[rows], self._token_s[rows]
        self._levels.keep(rows)

    def _fade(self, rows: Rows, pools: Rows, passed_s: float) -> None:
        count = _per_pool(self._sums[rows], pools)[pools, _PREFILLS]
        left = np.full(len(self._sums), 0.5 ** (passed_s / _HALF_LIFE_S))
        left[rows] = np.maximum(left[rows], np.minimum(_KEPT / np.maximum(count, _KEPT), 1.0))
        self._sums *= left[:, np.newaxis]


def _mean(total: Floats, count: Floats) -> Floats:
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0.0)


def _per_pool(values: Floats, pools: Rows) -> Floats:
    """Sums by pool, [number of pools, ...]."""
    result: Floats = np.zeros((int(pools.max(initial=-1)) + 1, *values.shape[1:]))
    np.add.at(result, pools, values)
    return result
