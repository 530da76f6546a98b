"""The state machine of one node: what it was and what is true now give what it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from isocost.config import StateSettings
from isocost.model import NodeState
from isocost.score.health_table import Action
from isocost.weight.ejection import (
    NONE,
    NOTHING_SERVED,
    Ejections,
    Served,
    Trial,
    ejected,
    forgotten,
    length_s,
    trial_failed,
    trial_passed,
)
from isocost.weight.standing import Reason, Standing

#: A new table is at every worker within half a second and the counts that follow from it are back
#: half a second later: until then an empty node may still get requests.
DRAIN_SETTLE_S = 1.0


#: Why a node is a suspect for as long as that is true, see Facts.doubt.
DOUBTS = (
    Reason.COLLECTOR_STALE,
    Reason.HARDWARE,
    Reason.ANOMALY,
    Reason.JITTER,
    Reason.CHECK_WARNING,
    Reason.UNREACHABLE,
)

#: It was out because the way to it is broken, which was no flapping of its own.
_BROKEN_WAY = (Reason.UNREACHABLE, Reason.COLLECTOR_STALE)

#: Faults that may come and go every second: their end counts when it has lasted.
DAMPED = (Reason.CHECK_CRITICAL, Reason.CHECK_LATE, Reason.UNREACHABLE)

_HARDWARE = {
    Action.EJECT: Standing(NodeState.EJECTED, Reason.HARDWARE),
    Action.DRAIN: Standing(NodeState.DRAINING, Reason.HARDWARE),
}
_OUT_BY_HARDWARE = {standing.state: action for action, standing in _HARDWARE.items()}


@dataclass(frozen=True, slots=True)
class Life:
    """A node's standing, the time at which its state began, and what it remembers.

    ``poor_s`` is when it last gave reason to be a suspect; ``trial`` is set while it is on trial.
    """

    standing: Standing
    since_s: float
    ejections: Ejections = NONE
    trial: Trial | None = None
    poor_s: float = -math.inf

    @property
    def state(self) -> NodeState:
        return self.standing.state

    @property
    def out_by_hardware(self) -> Action:
        """What its hardware does to it now: it drains or is ejected for that, or neither."""
        if self.standing.reason is not Reason.HARDWARE:
            return Action.IGNORE
        return _OUT_BY_HARDWARE.get(self.state, Action.IGNORE)

    @property
    def out(self) -> bool:
        """Put aside by judgement: ejected, or on trial."""
        if self.state is NodeState.EJECTED:
            return self.standing.reason is not Reason.HARDWARE
        return self.trial is not None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true of a node at one tick.

    ``fault``: why it is lost, or drains for maintenance, whatever else is true. ``drain_age_s``:
    time since the order to drain, None without one. ``empty``: gateways and engine agree that
    nothing is open there, and both are known. ``hardware``: to drain or to eject for what the
    health table found, where the limits allow it. ``doubt``: why it is a suspect for as long as
    that is true, whatever it answers, one of DOUBTS. ``stalled`` and ``stuck``: see Progress;
    ``poor``: see Evidence.
    """

    fault: Reason | None = None
    drain_age_s: float | None = None
    empty: bool = False
    has_telemetry: bool = True
    hardware: Action = Action.IGNORE
    doubt: Reason | None = None
    poor: bool = False
    stalled: bool = False
    stuck: bool = False
    served: Served = NOTHING_SERVED


def first_life(reason: Reason | None, now_s: float) -> Life:
    """A node that was not known before: it warms for that reason, or serves at once (None)."""
    if reason is None:
        return Life(Standing(NodeState.SERVING, Reason.OK), now_s)
    return Life(Standing(NodeState.WARMING, reason), now_s)


def due_s(life: Life, settings: StateSettings) -> float:
    """From when on a step changes this life though nothing is new. The end of a suspicion and the
    reasons of a drain move with what is seen, so they are not told here.
    """
    if life.trial is not None:
        return life.trial.since_s + settings.trial_quiet_s
    if life.standing.reason is Reason.CHECK_RECOVERING:
        return life.ejections.until_s
    match life.state:
        case NodeState.WARMING:
            return life.since_s + settings.slow_start_s
        case NodeState.EJECTED if life.out:
            return life.ejections.until_s
        case _:
            return math.inf


def step(life: Life, facts: Facts, now_s: float, settings: StateSettings) -> Life:
    """The node's life after this tick. Ejection is not decided here, because it is limited by what
    the other nodes do; only a trial that fails ends in one, because its node is out already.
    """
    if facts.drain_age_s is not None:
        return _drain(life, facts, facts.drain_age_s, now_s, settings)
    if facts.fault is not None:
        return _out_by_fault(life, facts.fault, now_s, settings)
    if facts.hardware in _HARDWARE:
        standing = _HARDWARE[facts.hardware]
        return _enter(life, standing.state, standing.reason, now_s)
    if life.state in (NodeState.LOST, NodeState.DRAINING) or life.out_by_hardware:
        return _come_back(life, facts, now_s, settings)
    return _present(life, facts, now_s, settings)


def _present(life: Life, facts: Facts, now_s: float, settings: StateSettings) -> Life:
    if life.state is NodeState.EJECTED:
        return _ejected(life, facts, now_s, settings)
    if life.trial is not None:
        return _on_trial(life, life.trial, facts, now_s, settings)
    if facts.poor or facts.stalled:
        return _poor(life, facts, now_s, settings)
    if life.state is NodeState.SUSPECT:
        return _suspect(life, facts, now_s, settings)
    return _clean(life, facts, now_s, settings)


def _clean(life: Life, facts: Facts, now_s: float, settings: StateSettings) -> Life:
    if facts.doubt is not None:
        return _enter(life, NodeState.SUSPECT, facts.doubt, now_s)
    if life.state is NodeState.WARMING and now_s - life.since_s < settings.slow_start_s:
        return life
    return _serve(life, facts, now_s)


def eject(life: Life, reason: Reason, now_s: float, settings: StateSettings) -> Life:
    """Out, until a trial that comes the later the more often it happened."""
    after = _enter(life, NodeState.EJECTED, reason, now_s)
    return replace(after, ejections=ejected(life.ejections, now_s, settings), trial=None)


def let_in(life: Life, now_s: float) -> Life:
    """Back from ejection or trial because too few others are left."""
    after = _enter(life, NodeState.SUSPECT, Reason.MIN_CAPACITY, now_s)
    ejections = replace(life.ejections, until_s=now_s, pending=False)
    return replace(after, ejections=ejections, trial=None, poor_s=now_s)


def _enter(life: Life, state: NodeState, reason: Reason, now_s: float) -> Life:
    """The state's time goes on if only its reason is new; a trial ends with its state."""
    standing = Standing(state, reason)
    if standing == life.standing:
        return life
    since_s = life.since_s if state is life.state else now_s
    return replace(life, standing=standing, since_s=since_s, trial=None)


def _serve(life: Life, facts: Facts, now_s: float) -> Life:
    reason = Reason.OK if facts.has_telemetry else Reason.NO_TELEMETRY
    return _enter(life, NodeState.SERVING, reason, now_s)


def _drain(
    life: Life, facts: Facts, drain_age_s: float, now_s: float, settings: StateSettings
) -> Life:
    draining = life.state is NodeState.DRAINING
    if facts.empty and draining and now_s - life.since_s >= DRAIN_SETTLE_S:
        reason = Reason.DRAINED
    elif drain_age_s > settings.drain_timeout_s:
        reason = Reason.DRAIN_TIMED_OUT
    else:
        reason = Reason.DRAINING
    return _enter(life, NodeState.DRAINING, reason, now_s)


def _out_by_fault(life: Life, fault: Reason, now_s: float, settings: StateSettings) -> Life:
    """A fault that comes and goes is remembered as an ejection is: each time that it takes a node
    out of service, the time that it must be gone for doubles.
    """
    state = NodeState.DRAINING if fault is Reason.MAINTENANCE else NodeState.LOST
    after = _enter(life, state, fault, now_s)
    past = life.ejections
    if fault not in DAMPED or not (life.state.eligible or forgotten(past, now_s, settings)):
        return after
    return replace(after, ejections=replace(ejected(past, now_s, settings), pending=past.pending))


def _come_back(life: Life, facts: Facts, now_s: float, settings: StateSettings) -> Life:
    """A node that was out for another cause first ends the ejection that it was in."""
    if facts.doubt not in _BROKEN_WAY:
        if life.standing.reason in DAMPED:
            after = _enter(life, NodeState.LOST, Reason.CHECK_RECOVERING, now_s)
            until_s = now_s + length_s(life.ejections.count, settings)
            return replace(after, ejections=replace(life.ejections, until_s=until_s))
        if life.standing.reason is Reason.CHECK_RECOVERING and now_s < life.ejections.until_s:
            return life
    if life.ejections.pending:
        return _enter(life, NodeState.EJECTED, Reason.FAILURES, now_s)
    if facts.doubt is not None:
        return _enter(life, NodeState.SUSPECT, facts.doubt, now_s)
    if life.out_by_hardware is Action.EJECT:
        return begin_trial(life, Reason.TRIAL, facts.served, now_s)
    if life.out_by_hardware is Action.DRAIN:
        reason = Reason.HEALED
    else:
        reason = Reason.RETURNED if life.state is NodeState.LOST else Reason.UNDRAINED
    return _enter(life, NodeState.WARMING, reason, now_s)


def begin_trial(life: Life, reason: Reason, served: Served, now_s: float) -> Life:
    """A few requests, whose outcome decides."""
    after = _enter(life, NodeState.SUSPECT, reason, now_s)
    return replace(after, trial=Trial(now_s, served))


def _ejected(life: Life, facts: Facts, now_s: float, settings: StateSettings) -> Life:
    """Then the trial; but while requests hang there, only after the longest time of all."""
    until_s = life.ejections.until_s + (settings.eject_max_s if facts.stuck else 0.0)
    if now_s < until_s:
        return life
    return begin_trial(life, Reason.TRIAL, facts.served, now_s)


def _on_trial(
    life: Life, trial: Trial, facts: Facts, now_s: float, settings: StateSettings
) -> Life:
    if facts.stalled:
        return eject(life, Reason.NO_PROGRESS, now_s, settings)
    if trial_failed(trial, facts.served):
        return eject(life, Reason.FAILURES, now_s, settings)
    if not trial_passed(trial, facts.served, now_s, settings):
        return life
    after = _enter(life, NodeState.WARMING, Reason.HEALED, now_s)
    return replace(after, ejections=replace(life.ejections, until_s=now_s, pending=False))


def _poor(life: Life, facts: Facts, now_s: float, settings: StateSettings) -> Life:
    """A suspect; but a node that warms stays at its ramp, since half of its share could be more."""
    if life.state is not NodeState.WARMING or now_s - life.since_s >= settings.slow_start_s:
        reason = Reason.NO_PROGRESS if facts.stalled else Reason.FAILURES
        life = _enter(life, NodeState.SUSPECT, reason, now_s)
    return replace(life, poor_s=now_s)


def _suspect(life: Life, facts: Facts, now_s: float, settings: StateSettings) -> Life:
    if life.standing.reason not in DOUBTS and now_s - life.poor_s < settings.clean_s:
        return life
    if facts.doubt is not None:
        return _enter(life, NodeState.SUSPECT, facts.doubt, now_s)
    return _serve(life, facts, now_s)
