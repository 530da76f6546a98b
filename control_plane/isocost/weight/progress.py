"""Does a node with open requests get anywhere? A health page that answers proves nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.config import StateSettings
from isocost.model import SignalState
from isocost.observe.fleet import Observed
from isocost.score.columns import Column, Floats
from isocost.score.telemetry import FleetTelemetry

#: Clients that give up at once leave requests behind that no engine could have answered: the open
#: requests must be this old on average to say anything.
_MEAN_AGE_S = 1.0


@dataclass(frozen=True)
class Progress:
    """``stalled``: no progress where there must be some; ``stuck``: requests wait for the first
    sign of life. Each [n], and false where the engine's counters are not known: an answer of
    several minutes shows nothing at the gateways until it ends.
    """

    stalled: NDArray[np.bool_]
    stuck: NDArray[np.bool_]


class ProgressWatch:
    """Remembers per node when work was last seen to be done.

    Signs of life are a request that the node ended, as the gateways saw it, and the engine's
    counters: tokens that moved, KV memory that filled (a long prompt in work). A queue in the
    engine is no sign of work: one that admits nothing has it too.
    """

    def __init__(self, settings: StateSettings, fresh_s: float) -> None:
        """A sample older than ``fresh_s`` says nothing about the engine."""
        #: Replaced as a whole.
        self.settings = settings
        self.fresh_s = fresh_s
        self._tokens = np.zeros(0)
        self._kv_usage = np.zeros(0)
        #: Since when requests wait in the engine's queue while nothing moves; infinite without.
        self._queued_s = np.zeros(0)
        self._started = np.zeros(0)
        self._ended = np.zeros(0)
        #: Requests started up to the last sign of life.
        self._before = np.zeros(0)
        #: When the first request after it started; infinite without one.
        self._since_s = np.zeros(0)

    def rearrange(self, former: NDArray[np.intp], observed: Observed) -> None:
        """Follow a new roster: ``former`` [n] is each node's place in the old one, -1 = none."""
        old = former >= 0

        def moved(array: Floats, fill: Floats) -> Floats:
            result = fill.copy()
            result[old] = array[former[old]]
            return result

        nothing = np.full(former.shape, math.nan)
        self._tokens = moved(self._tokens, nothing)
        self._kv_usage = moved(self._kv_usage, nothing)
        self._started = moved(self._started, observed.total.started)
        self._ended = moved(self._ended, observed.ended)
        self._before = moved(self._before, observed.total.started)
        self._since_s = moved(self._since_s, np.full(former.shape, math.inf))
        self._queued_s = moved(self._queued_s, np.full(former.shape, math.inf))

    def update(
        self,
        telemetry: FleetTelemetry,
        ages_s: Floats,
        observed: Observed,
        now_s: float,
    ) -> Progress:
        """What the tick at ``now_s`` shows; ``ages_s`` [n] is the time since each sample came."""
        tokens, kv_usage = _or_nan(telemetry.work), _or_nan(telemetry.kv_usage)
        alive = (tokens != self._tokens) | (kv_usage > self._kv_usage)
        # Not known is not moving; and a value that came back is no sign either.
        alive &= ~(np.isnan(tokens) | np.isnan(self._tokens))
        alive |= observed.ended != self._ended
        started, in_flight = observed.total.started, observed.in_flight
        opened = np.minimum(started - self._started, in_flight)
        self._before = np.where(alive, started - opened, self._before)
        waiting = np.minimum(started - self._before, in_flight)
        first = np.where(alive | np.isinf(self._since_s), now_s, self._since_s)
        self._since_s = np.where(waiting > 0, first, math.inf)
        queued = (_measured(telemetry.waiting) > 0.0) & (in_flight > 0) & ~alive
        self._queued_s = np.where(queued, np.minimum(self._queued_s, now_s), math.inf)
        self._tokens, self._kv_usage = tokens, kv_usage
        self._started, self._ended = started, observed.ended
        judged = ~np.isnan(tokens) & (ages_s <= self.fresh_s)
        hangs = (
            (waiting >= self.settings.no_progress_requests)
            & (now_s - self._since_s >= self.settings.no_progress_s)
            & (observed.open_age_s_sum >= _MEAN_AGE_S * in_flight)
        )
        queues = now_s - self._queued_s >= self.settings.no_progress_s
        return Progress(judged & (hangs | queues), judged & (waiting > 0))


def _or_nan(column: Column) -> Floats:
    """Values, NaN where not known."""
    result: Floats = np.where(column.known, column.value, math.nan)
    return result


def _measured(column: Column) -> Floats:
    """Values, NaN where not measured now."""
    result: Floats = np.where(column.state == SignalState.MEASURED, column.value, math.nan)
    return result
