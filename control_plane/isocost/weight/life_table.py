"""All lives as arrays, so that a tick looks closely only at the nodes that may change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isocost.config import StateSettings
from isocost.model import NodeState
from isocost.score.columns import Floats
from isocost.score.health_table import Action
from isocost.weight.evidence import Flags
from isocost.weight.lifecycle import DOUBTS, DRAIN_SETTLE_S, Life, due_s
from isocost.weight.standing import Reason

FAULTS = (
    None,
    Reason.ENGINE_DOWN,
    Reason.AGENT_SILENT,
    Reason.UNREACHABLE,
    Reason.WITHDRAWN,
    Reason.CHECK_LATE,
    Reason.CHECK_CRITICAL,
    Reason.MAINTENANCE,
)
NO_FAULT, ENGINE_DOWN, AGENT_SILENT, UNREACHABLE, WITHDRAWN, CHECK_LATE, CHECK_CRITICAL = range(7)
MAINTENANCE = 7
_FAULT_CODES = {reason: code for code, reason in enumerate(FAULTS)}

NO_DOUBT = 0
#: Reasons for doubt as numbers.
DOUBT_CODES = {reason: code for code, reason in enumerate(DOUBTS, start=NO_DOUBT + 1)}
_NO_CAUSE, _FAILURES, _NO_PROGRESS = range(3)
_CAUSES = {Reason.FAILURES: _FAILURES, Reason.NO_PROGRESS: _NO_PROGRESS}
_DRAINING, _DRAIN_TIMED_OUT, _DRAINED = range(3)
_DRAINS = {
    Reason.DRAINING: _DRAINING,
    Reason.DRAIN_TIMED_OUT: _DRAIN_TIMED_OUT,
    Reason.DRAINED: _DRAINED,
}

Codes = NDArray[np.int8]


@dataclass(frozen=True)
class News:
    """What one tick knows of n nodes and a life depends on, each [n]. ``fault`` is an index of
    ``FAULTS``; ``drain_age_s`` is NaN without an order; ``empty``: nothing is open there for sure;
    ``hardware`` is an Action: DRAIN, EJECT, or less; ``doubt`` is one of ``DOUBT_CODES``, or none.
    """

    fault: Codes
    drain_age_s: Floats
    empty: Flags
    has_telemetry: Flags
    hardware: Codes
    doubt: Codes
    poor: Flags
    stalled: Flags
    stuck: Flags
    good: Floats
    failed: Floats


class LifeTable:
    """The lives of n nodes; the arrays [n] are read by others and written here only."""

    def __init__(self, lives: Iterable[Life], settings: StateSettings) -> None:
        self._settings = settings
        self.lives = list(lives)
        self.standings = [life.standing for life in self.lives]
        count = len(self.lives)
        self.state = np.zeros(count, dtype=np.int8)
        self.since_s = np.zeros(count)
        self.out = np.zeros(count, dtype=np.bool_)
        self.trial = np.zeros(count, dtype=np.bool_)
        self._due_s = np.zeros(count)
        self._poor_s = np.zeros(count)
        self._fault = np.zeros(count, dtype=np.int8)
        self._cause = np.zeros(count, dtype=np.int8)
        self._drain = np.zeros(count, dtype=np.int8)
        self._ordered = np.zeros(count, dtype=np.bool_)
        #: An Action: what each node's hardware does to it now.
        self.hardware = np.zeros(count, dtype=np.int8)
        self._untold = np.zeros(count, dtype=np.bool_)
        #: One of DOUBT_CODES, or none: why each is a suspect for as long as that is true.
        self.doubt = np.zeros(count, dtype=np.int8)
        #: What a node had served when its trial began.
        self._good = np.zeros(count)
        self._failed = np.zeros(count)
        for index, life in enumerate(self.lives):
            self.put(index, life)

    def configure(self, settings: StateSettings) -> None:
        """Other settings from now on: what is due by them is due at other times."""
        self._settings = settings
        for index, life in enumerate(self.lives):
            self._due_s[index] = due_s(life, settings)

    def put(self, index: int, life: Life) -> None:
        reason = life.standing.reason
        self.lives[index], self.standings[index] = life, life.standing
        self.state[index] = life.state
        self.since_s[index] = life.since_s
        self.out[index] = life.out
        self.trial[index] = life.trial is not None
        self._due_s[index] = due_s(life, self._settings)
        self._poor_s[index] = life.poor_s
        suspect = life.state is NodeState.SUSPECT
        out = not life.state.eligible
        self._fault[index] = _FAULT_CODES.get(reason, NO_FAULT) if out else NO_FAULT
        self._cause[index] = _CAUSES.get(reason, _NO_CAUSE) if suspect else _NO_CAUSE
        self._drain[index] = _DRAINS.get(reason, _DRAINING)
        self._untold[index] = reason is Reason.NO_TELEMETRY
        self.hardware[index] = life.out_by_hardware
        self._ordered[index] = life.state is NodeState.DRAINING and reason in _DRAINS
        self.doubt[index] = DOUBT_CODES.get(reason, NO_DOUBT) if suspect else NO_DOUBT
        if life.trial is not None:
            self._good[index] = life.trial.before.good
            self._failed[index] = life.trial.before.failed

    def life(self, index: int) -> Life:
        """The life as it is now: a suspect whose cause lasts is not put again on each tick."""
        life, poor_s = self.lives[index], float(self._poor_s[index])
        return life if life.poor_s == poor_s else replace(life, poor_s=poor_s)

    def in_service(self) -> Flags:
        return np.isin(self.state, [state for state in NodeState if state.eligible])

    def may_change(self, news: News, now_s: float) -> list[int]:
        """The nodes whose step could give another standing than they have."""
        ordered = ~np.isnan(news.drain_age_s)
        mask = ordered != self._ordered
        mask |= ordered & (self._drain != self._drain_is(news, now_s))
        mask |= ~ordered & (self._of_itself(news, now_s) | (news.fault != self._fault))
        acts = np.where(news.hardware >= Action.DRAIN, news.hardware, Action.IGNORE)
        mask |= ~ordered & (news.fault == NO_FAULT) & (acts != self.hardware)
        return list(np.flatnonzero(mask).tolist())

    def _drain_is(self, news: News, now_s: float) -> Codes:
        late = news.drain_age_s > self._settings.drain_timeout_s
        settled = now_s - self.since_s >= DRAIN_SETTLE_S
        code = np.where(late, _DRAIN_TIMED_OUT, _DRAINING)
        return np.where(news.empty & settled, _DRAINED, code).astype(np.int8)

    def _of_itself(self, news: News, now_s: float) -> Flags:
        """The nodes that change without an order or a fault."""
        settings = self._settings
        serving, suspect = self.state == NodeState.SERVING, self.state == NodeState.SUSPECT
        warming = self.state == NodeState.WARMING
        held = suspect & ~self.trial
        cause = np.where(news.stalled, _NO_PROGRESS, np.where(news.poor, _FAILURES, _NO_CAUSE))
        caused = cause != _NO_CAUSE
        self._poor_s[held & caused] = now_s
        stuck_s = np.where(
            news.stuck & (self.state == NodeState.EJECTED), settings.eject_max_s, 0.0
        )
        decided = (
            news.stalled
            | (news.failed > self._failed)
            | (news.good - self._good >= settings.trial_successes)
        )
        mask: Flags = (
            (now_s >= self._due_s + stuck_s)
            | (serving & (news.has_telemetry == self._untold))
            | ((serving | warming) & (news.doubt != NO_DOUBT))
            | ((self.doubt != NO_DOUBT) & (news.doubt != self.doubt))
            | ((serving | held) & caused & (cause != self._cause))
            | (held & (self.doubt == NO_DOUBT) & (now_s - self._poor_s >= settings.clean_s))
            | (self.trial & decided)
        )
        return mask
