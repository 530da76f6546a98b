"""Does an engine's page still tell the truth? Not one that stands still while work is done."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isocost.config import StateSettings
from isocost.model import SignalState
from isocost.observe.fleet import Observed
from isocost.score.columns import Column, Floats
from isocost.score.telemetry import FleetTelemetry
from isocost.weight.evidence import Flags
from isocost.weight.roster_change import moved

#: The gateways tell of an answer up to two ticks and a scrape after the engine counted it.
_SETTLE_S = 1.0
#: An answer without a token (an empty list of models) moves no counter; so many in a row with
#: tokens among them do.
_FEWEST_ANSWERS = 3


@dataclass(frozen=True)
class Gauges:
    """Of n nodes, each [n]: ``still_s`` is how long the page has stood still where that makes it
    stale, 0 elsewhere. ``frozen``: answers come, and the page does not move. ``idle_stuck``: the
    page says that the engine works, nothing moves, and no gateway has anything there; ``newly``:
    since this tick.
    """

    still_s: Floats
    frozen: Flags
    idle_stuck: Flags
    newly: Flags

    def applied(self, telemetry: FleetTelemetry) -> FleetTelemetry:
        """The telemetry with the load of such pages as old as it is."""
        if not (self.still_s > 0.0).any():
            return telemetry
        return replace(
            telemetry,
            running=self._stale(telemetry.running),
            waiting=self._stale(telemetry.waiting),
            kv_usage=self._stale(telemetry.kv_usage),
        )

    def signs(self, telemetry: FleetTelemetry) -> FleetTelemetry:
        """The telemetry as a sign of work: a page that stands still while answers come shows none,
        nor that there is none. One that nothing was asked of may be true.
        """
        if not self.frozen.any():
            return telemetry
        work = telemetry.work
        state = np.where(self.frozen, SignalState.ABSENT, work.state).astype(np.int8)
        return replace(telemetry, work=replace(work, state=state))

    def _stale(self, column: Column) -> Column:
        old = column.known & (self.still_s > 0.0)
        state = np.where(old, SignalState.STALE, column.state).astype(np.int8)
        return Column(column.value, state, np.where(old, self.still_s, column.age_s))


class GaugeWatch:
    """Remembers when each engine's numbers moved last, and what was served by then."""

    def __init__(self, settings: StateSettings) -> None:
        #: Replaced as a whole.
        self.settings = settings
        #: What the pages said last: running, waiting, KV usage, work.
        self._last = np.zeros((4, 0))
        self._moved_s = np.zeros(0)
        #: As of then, and for a moment after it: answers that ended, open requests, tokens.
        self._good, self._open, self._tokens = np.zeros(0), np.zeros(0), np.zeros(0)
        #: Since when nothing moved and the gateways had and sent nothing there.
        self._idle_s, self._started = np.zeros(0), np.zeros(0)
        self._stuck = np.zeros(0, dtype=np.bool_)

    def rearrange(self, former: NDArray[np.intp], now_s: float) -> None:
        """Follow a new roster: ``former`` [n] is each node's place in the old one, -1 = none."""
        self._last = moved(self._last.T, former, math.nan).T
        self._moved_s = moved(self._moved_s, former, now_s)
        self._idle_s = moved(self._idle_s, former, now_s)
        self._good, self._open = moved(self._good, former, 0.0), moved(self._open, former, 0.0)
        self._tokens = moved(self._tokens, former, 0.0)
        self._started = moved(self._started, former, math.nan)
        self._stuck = moved(self._stuck, former, False)

    def update(self, telemetry: FleetTelemetry, observed: Observed, now_s: float) -> Gauges:
        """What the tick at ``now_s`` shows. Nothing is concluded of pages without counters."""
        columns = (telemetry.running, telemetry.waiting, telemetry.kv_usage, telemetry.work)
        numbers = np.array([np.where(item.known, item.value, math.nan) for item in columns])
        # NaN is not equal to itself, and what a page never tells has not moved.
        same = (numbers == self._last) | np.isnan(numbers) & np.isnan(self._last)
        judged = (telemetry.work.state == SignalState.MEASURED) & same.all(axis=0)
        self._last = numbers
        self._moved_s = np.where(judged, self._moved_s, now_s)
        still_s = now_s - self._moved_s
        good, tokens = observed.total.good, observed.output_tokens
        settling = still_s < _SETTLE_S
        self._good = np.where(settling, good, self._good)
        self._open = np.where(settling, observed.in_flight, self._open)
        self._tokens = np.where(settling, tokens, self._tokens)
        frozen = (
            (good - self._good - self._open >= _FEWEST_ANSWERS)
            & (tokens > self._tokens)
            & (still_s >= self.settings.frozen_s)
        )
        return self._result(telemetry, observed, still_s, frozen, judged, now_s)

    def _result(
        self,
        telemetry: FleetTelemetry,
        observed: Observed,
        still_s: Floats,
        frozen: Flags,
        judged: Flags,
        now_s: float,
    ) -> Gauges:
        busy = (telemetry.running.value > 0.0) & (telemetry.running.state == SignalState.MEASURED)
        busy |= (telemetry.waiting.value > 0.0) & (telemetry.waiting.state == SignalState.MEASURED)
        idle = judged & busy & observed.in_flight_known & (observed.in_flight == 0)
        idle &= observed.total.started == self._started
        self._started = observed.total.started
        self._idle_s = np.where(idle, self._idle_s, now_s)
        stuck = now_s - self._idle_s >= self.settings.idle_stuck_s
        # Its trial requests do not make what its page says of its load true: only a move does.
        stuck |= self._stuck & judged & busy
        newly = stuck & ~self._stuck
        if np.count_nonzero(stuck) > self.settings.max_out_fraction * len(stuck):
            # As when a load ends everywhere at once: there is nobody who would have its traffic.
            newly = np.zeros_like(newly)
        self._stuck = stuck
        return Gauges(np.where(frozen | stuck, still_s, 0.0), frozen, stuck, newly)
