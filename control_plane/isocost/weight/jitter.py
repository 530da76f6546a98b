"""Which nodes answer later than they used to though no load explains it: their network is at fault.

A delay on the way to a node is in every first token, the fastest ones included, and in no time per
token. A queue spares some answers, and a slow engine shows in its time per token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from isocost.config import StateSettings
from isocost.observe.speeds import TickTimes
from isocost.score.columns import Floats
from isocost.weight.evidence import Flags
from isocost.weight.node_history import Counts, LastTicks, Usual
from isocost.weight.roster_change import moved

#: Long enough for several ticks with answers, short enough to be in time.
WINDOW_S = 2.0
#: Ticks of 0.2 s that fill the window.
_TICKS = 10
#: So many ticks with answers say something, ...
_FEWEST = 4
#: ... and this part of them must be late: a queue that a burst leaves is gone after a second.
_AGREEING = 0.8
#: What comes to all nodes must be seen at the others before it is seen at one, so they are looked
#: at over this time.
_OTHERS_S = 1.0

#: What is usual at a node is forgotten by half after so many ticks with answers: 20 s of steady
#: traffic, ten times the window.
_HALF_LIFE = 100.0
#: However evenly its first tokens, or the tokens after them, came lately: a step of an engine, and
#: what steps differ by.
_LEAST_SCATTER_S, _LEAST_OUTPUT_SCATTER_S = 0.01, 0.001
#: So many ticks with answers tell what is usual: 4 s of steady traffic.
_KNOWN = 20.0

#: Less is no reason to send requests elsewhere: it is what 1,000 tokens of a prompt take.
_LEAST_S = 0.05
#: The usual bound of what is chance, in standard deviations.
_SIGMAS = 3.0
#: A standard deviation, of normal scatter, by the mean distance from the mean, ...
_BY_MEAN = 1.2533
#: ... and by the median distance from the median.
_BY_MEDIAN = 1.4826
#: What 0.8 of some ticks reach scatters so much more than their mean.
_OF_QUANTILE = 1.4

#: What is later than usual at more than this part of the nodes is no news of one.
_MOST_OF_THEM = 0.5

#: A time per token that rose by more than this, beside the others', is the engine's own slowness.
_SLOWER = 1.5

#: A flag ends after so long without being late, ...
CALM_S = 2.0
#: ... or without enough answers to tell: a node that gets none cannot show that it is well.
UNSEEN_S = 5.0


@dataclass(frozen=True)
class Jitter:
    """Of n nodes, each [n]. ``late``: their latency rose without load. ``rise_s``: by how much, and
    beside the others; NaN where too few answers tell. More than ``limit_s`` begins it.
    """

    late: Flags
    rise_s: Floats
    limit_s: Floats


class JitterWatch:
    """Remembers what each node's first tokens are late by, lately and usually. Times are monotonic
    seconds.
    """

    def __init__(self, settings: StateSettings) -> None:
        #: Replaced as a whole.
        self.settings = settings
        self._extra_s, self._output_token_s = LastTicks(_TICKS), LastTicks(_TICKS)
        self._usual_s = Usual(_HALF_LIFE, _LEAST_SCATTER_S)
        self._usual_output_s = Usual(_HALF_LIFE, _LEAST_OUTPUT_SCATTER_S)
        self._late = np.zeros(0, dtype=np.bool_)
        #: When each was last seen to be late.
        self._late_s = np.zeros(0)

    def rearrange(self, former: Counts) -> None:
        """Follow a new roster: ``former`` [n] is each node's place in the old one, -1 = none."""
        for part in (self._extra_s, self._output_token_s, self._usual_s, self._usual_output_s):
            part.rearrange(former)
        self._late = moved(self._late, former, False)
        self._late_s = moved(self._late_s, former, -math.inf)

    def update(self, times: TickTimes, pools: Counts, now_s: float) -> Jitter:
        """What holds at ``now_s``; once per tick. ``pools`` [n]: nodes that should be alike have
        the same number.
        """
        self._take(times, now_s)
        usual_s, known = self._usual_s.mean, self._usual_s.weight
        agreed_s, count = self._extra_s.reached_by(_AGREEING, now_s - WINDOW_S)
        soon_s = self._extra_s.mean(now_s - _OTHERS_S)
        judged = (count >= _FEWEST) & (known >= _KNOWN)
        others_s, scatter_s = _of_the_others(soon_s - usual_s, judged & ~np.isnan(soon_s), pools)
        rise_s = agreed_s - usual_s - others_s
        tick_scatter_s = _BY_MEAN * self._usual_s.distance
        both = 1.0 / np.maximum(count, 1) + 1.0 / np.maximum(known, 1.0)
        own_scatter_s = _OF_QUANTILE * tick_scatter_s * np.sqrt(both)
        limit_s = np.maximum(_LEAST_S, _SIGMAS * np.maximum(scatter_s, own_scatter_s))
        over = judged & (rise_s > limit_s)
        later = judged & (agreed_s - usual_s > limit_s)
        if np.count_nonzero(later) > _MOST_OF_THEM * np.count_nonzero(judged):
            # It came to most of them, if not by as much to each: what is usual begins anew.
            self._late[:] = False
            self._extra_s.forget(judged)
            self._usual_s.forget(judged)
        elif over.any() or self._late.any():
            slower = self._slower(now_s)
            self._end(rise_s > 0.5 * limit_s, count, slower, now_s)
            self._begin(over & ~slower, rise_s, judged, now_s)
        return Jitter(self._late.copy(), np.where(judged, rise_s, math.nan), limit_s)

    def _take(self, times: TickTimes, now_s: float) -> None:
        """What leaves the window becomes usual, but not of a node that is late."""
        for values, last, usual in (
            (times.extra_s, self._extra_s, self._usual_s),
            (times.output_token_s, self._output_token_s, self._usual_output_s),
        ):
            left = last.add(values, now_s)
            left[self._late] = math.nan
            usual.add(left)

    def _slower(self, now_s: float) -> Flags:
        """Whose engine is slow, [n]."""
        recent_s, count = self._output_token_s.reached_by(0.5, now_s - WINDOW_S)
        known = (count > 0) & (self._usual_output_s.weight >= _KNOWN)
        ratio = recent_s / np.where(known, self._usual_output_s.mean, 1.0)
        slower: Flags = known & (ratio > _SLOWER * max(_lower_median(ratio[known]), 1.0))
        return slower

    def _end(self, still: Flags, count: Counts, slower: Flags, now_s: float) -> None:
        """``still`` [n]: more than half of the limit; ``count`` [n]: ticks with answers."""
        late = self._late
        # One tick is chance. A late node has few answers, though.
        seen = count > 1
        self._late_s[late & seen & still] = now_s
        not_late_s = now_s - self._late_s
        over = late & ((seen & (not_late_s >= CALM_S)) | (not_late_s >= UNSEEN_S) | slower)
        late[over] = False
        # What it was late by is never to be taken for usual.
        self._extra_s.forget(over)
        self._output_token_s.forget(over)

    def _begin(self, late: Flags, rise_s: Floats, judged: Flags, now_s: float) -> None:
        """The latest first, as many as may be."""
        new = np.flatnonzero(late & ~self._late)
        most = math.floor(self.settings.max_out_fraction * np.count_nonzero(judged | self._late))
        room = max(most - np.count_nonzero(self._late), 0)
        new = new[np.argsort(-rise_s[new], kind="stable")][:room]
        self._late[new] = True
        self._late_s[new] = now_s


def _of_the_others(rise_s: Floats, judged: Flags, pools: Counts) -> tuple[Floats, float]:
    """By how much all are later than usual, [n]: the fleet's median, or that of the node's pool if
    it is more; 0 if they are earlier, for who stays as usual is not late. And how far the fleet's
    rises scatter: those below the median, which no late node moves.
    """
    known = rise_s[judged]
    middle = _lower_median(known)
    fleet = max(middle, 0.0)
    result = np.full_like(rise_s, fleet)
    for pool in range(int(pools.max(initial=-1)) + 1):
        members = judged & (pools == pool)
        # One alone is not to be compared with itself.
        if np.count_nonzero(members) > 1:
            result[pools == pool] = max(fleet, _lower_median(rise_s[members]))
    scatter_s = _BY_MEDIAN * _lower_median(middle - known[known <= middle])
    return result, scatter_s


def _lower_median(values: Floats) -> float:
    """The middle one; of two the smaller, so that of two nodes one can be late."""
    return float(np.sort(values)[(values.size - 1) // 2]) if values.size else 0.0
