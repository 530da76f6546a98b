"""One node's state machine, as a table: what it was, what is true, what it becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isocost.config import StateSettings
from isocost.model import NodeState
from isocost.score.health_table import Action
from isocost.weight.ejection import Ejections, Served, Trial
from isocost.weight.lifecycle import DRAIN_SETTLE_S, Facts, Life, eject, first_life, let_in, step
from isocost.weight.standing import Reason, Standing

S = StateSettings()
NOW_S = 1000.0
W, SV, SU, D, E, L = (
    NodeState.WARMING,
    NodeState.SERVING,
    NodeState.SUSPECT,
    NodeState.DRAINING,
    NodeState.EJECTED,
    NodeState.LOST,
)
R = Reason


def life(state: NodeState, reason: Reason, for_s: float = 0.0, **changes: object) -> Life:
    made = Life(Standing(state, reason), NOW_S - for_s)
    return replace(made, **changes)  # type: ignore[arg-type]


WELL = Facts()
SERVING = life(SV, R.OK, 100.0)
WARMING = life(W, R.NEW, 5.0)
SUSPECT = life(SU, R.FAILURES, 5.0, poor_s=NOW_S - 5.0)
PENDING = Ejections(1, NOW_S - 0.1, pending=True)
EJECTED = life(E, R.FAILURES, 5.1, ejections=PENDING)
TRIAL = life(SU, R.TRIAL, 1.0, ejections=PENDING, trial=Trial(NOW_S - 1.0, Served(100, 50, 50)))
LOST = life(L, R.ENGINE_DOWN, 5.0)
DRAINING = life(D, R.DRAINING, 5.0)
HARDWARE_EJECTED = life(E, R.HARDWARE, 900.0)
HARDWARE_DRAINED = life(D, R.HARDWARE, 900.0)
SUSPECT_HARDWARE = life(SU, R.HARDWARE, 900.0)

CASES = {
    "a node that is well goes on serving": (SERVING, WELL, (SV, R.OK)),
    "a node without an agent serves": (
        SERVING,
        Facts(has_telemetry=False),
        (SV, R.NO_TELEMETRY),
    ),
    "and is told from one with": (life(SV, R.NO_TELEMETRY), WELL, (SV, R.OK)),
    "an engine that is down is lost": (SERVING, Facts(R.ENGINE_DOWN), (L, R.ENGINE_DOWN)),
    "also while it warms": (WARMING, Facts(R.ENGINE_DOWN), (L, R.ENGINE_DOWN)),
    "also while it is out": (EJECTED, Facts(R.ENGINE_DOWN), (L, R.ENGINE_DOWN)),
    "also while it is on trial": (TRIAL, Facts(R.AGENT_SILENT), (L, R.AGENT_SILENT)),
    "lost for another reason": (LOST, Facts(R.AGENT_SILENT), (L, R.AGENT_SILENT)),
    "a lost node comes back in a ramp": (LOST, WELL, (W, R.RETURNED)),
    "unless it had not passed its trial": (
        replace(LOST, ejections=PENDING),
        WELL,
        (E, R.FAILURES),
    ),
    "a ramp goes on": (WARMING, WELL, (W, R.NEW)),
    "a ramp ends": (life(W, R.NEW, S.slow_start_s), WELL, (SV, R.OK)),
    "poor answers in a ramp leave it at its ramp": (WARMING, Facts(poor=True), (W, R.NEW)),
    "poor answers after the ramp do not": (
        life(W, R.NEW, S.slow_start_s),
        Facts(poor=True),
        (SU, R.FAILURES),
    ),
    "poor answers make a suspect": (SERVING, Facts(poor=True), (SU, R.FAILURES)),
    "no progress makes a suspect": (SERVING, Facts(stalled=True), (SU, R.NO_PROGRESS)),
    "a suspect is held until it was clean for long": (SUSPECT, WELL, (SU, R.FAILURES)),
    "and then let go": (replace(SUSPECT, poor_s=NOW_S - S.clean_s), WELL, (SV, R.OK)),
    "silence of most agents is no fault": (
        SERVING,
        Facts(doubt=R.COLLECTOR_STALE),
        (SU, R.COLLECTOR_STALE),
    ),
    "and over at once": (life(SU, R.COLLECTOR_STALE, 5.0), WELL, (SV, R.OK)),
    "it also excuses who was lost just before": (
        life(L, R.AGENT_SILENT),
        Facts(doubt=R.COLLECTOR_STALE),
        (SU, R.COLLECTOR_STALE),
    ),
    "but not who fails": (
        life(SU, R.COLLECTOR_STALE),
        Facts(doubt=R.COLLECTOR_STALE, poor=True),
        (SU, R.FAILURES),
    ),
    "hardware ejects": (SERVING, Facts(hardware=Action.EJECT), (E, R.HARDWARE)),
    "and drains": (SERVING, Facts(hardware=Action.DRAIN), (D, R.HARDWARE)),
    "what only lowers changes no state": (SERVING, Facts(hardware=Action.LOWER), (SV, R.OK)),
    "hardware ejects who warms": (WARMING, Facts(hardware=Action.EJECT), (E, R.HARDWARE)),
    "who is a suspect": (SUSPECT, Facts(hardware=Action.EJECT), (E, R.HARDWARE)),
    "who is on trial": (TRIAL, Facts(hardware=Action.EJECT), (E, R.HARDWARE)),
    "and who is out for failures": (EJECTED, Facts(hardware=Action.EJECT), (E, R.HARDWARE)),
    "a lost node is lost whatever its hardware is": (
        SERVING,
        Facts(R.ENGINE_DOWN, hardware=Action.EJECT),
        (L, R.ENGINE_DOWN),
    ),
    "an order to drain is shown before its hardware": (
        SERVING,
        Facts(drain_age_s=0.0, hardware=Action.EJECT),
        (D, R.DRAINING),
    ),
    "and comes before it": (
        HARDWARE_EJECTED,
        Facts(drain_age_s=0.0, hardware=Action.EJECT),
        (D, R.DRAINING),
    ),
    "without the order its hardware drains it": (
        DRAINING,
        Facts(hardware=Action.DRAIN),
        (D, R.HARDWARE),
    ),
    "or ejects it": (DRAINING, Facts(hardware=Action.EJECT), (E, R.HARDWARE)),
    "ejected hardware stays out while it is ill": (
        HARDWARE_EJECTED,
        Facts(hardware=Action.EJECT, served=Served(9, 9, 9)),
        (E, R.HARDWARE),
    ),
    "it may get better": (HARDWARE_EJECTED, Facts(hardware=Action.DRAIN), (D, R.HARDWARE)),
    "or worse": (HARDWARE_DRAINED, Facts(hardware=Action.EJECT), (E, R.HARDWARE)),
    "ejected hardware that is well is tried": (HARDWARE_EJECTED, WELL, (SU, R.TRIAL)),
    "unless its node had not passed a trial": (
        replace(HARDWARE_EJECTED, ejections=PENDING),
        WELL,
        (E, R.FAILURES),
    ),
    "drained hardware that is well comes back in a ramp": (
        HARDWARE_DRAINED,
        WELL,
        (W, R.HEALED),
    ),
    "hardware beyond the limits makes a suspect": (
        SERVING,
        Facts(doubt=R.HARDWARE),
        (SU, R.HARDWARE),
    ),
    "also of who was out": (HARDWARE_EJECTED, Facts(doubt=R.HARDWARE), (SU, R.HARDWARE)),
    "for as long as it is": (SUSPECT_HARDWARE, Facts(doubt=R.HARDWARE), (SU, R.HARDWARE)),
    "and no longer": (SUSPECT_HARDWARE, WELL, (SV, R.OK)),
    "or until there is room": (SUSPECT_HARDWARE, Facts(hardware=Action.EJECT), (E, R.HARDWARE)),
    "also when it would be let go for its answers": (
        replace(SUSPECT, poor_s=NOW_S - S.clean_s),
        Facts(doubt=R.HARDWARE),
        (SU, R.HARDWARE),
    ),
    "it is told before a silent agent": (
        life(SU, R.COLLECTOR_STALE),
        Facts(doubt=R.HARDWARE),
        (SU, R.HARDWARE),
    ),
    "and a silent agent after it": (
        SUSPECT_HARDWARE,
        Facts(doubt=R.COLLECTOR_STALE),
        (SU, R.COLLECTOR_STALE),
    ),
    "an ejection lasts": (
        replace(EJECTED, ejections=replace(PENDING, until_s=NOW_S + 0.1)),
        WELL,
        (E, R.FAILURES),
    ),
    "and ends in a trial": (EJECTED, WELL, (SU, R.TRIAL)),
    "but not while requests hang there": (EJECTED, Facts(stuck=True), (E, R.FAILURES)),
    "unless for the longest time of all": (
        replace(EJECTED, ejections=replace(PENDING, until_s=NOW_S - S.eject_max_s)),
        Facts(stuck=True),
        (SU, R.TRIAL),
    ),
    "a trial without news goes on": (TRIAL, Facts(served=Served(103, 52, 50)), (SU, R.TRIAL)),
    "a trial is passed": (TRIAL, Facts(served=Served(103, 53, 50)), (W, R.HEALED)),
    "a trial is failed": (TRIAL, Facts(served=Served(104, 53, 51)), (E, R.FAILURES)),
    "a trial hangs": (TRIAL, Facts(stalled=True, served=Served(104, 50, 50)), (E, R.NO_PROGRESS)),
    "a quiet trial is passed in the end": (
        replace(TRIAL, trial=Trial(NOW_S - S.trial_quiet_s, Served())),
        WELL,
        (W, R.HEALED),
    ),
    "an order to drain is obeyed": (SERVING, Facts(drain_age_s=0.0), (D, R.DRAINING)),
    "also by a lost node": (LOST, Facts(R.ENGINE_DOWN, drain_age_s=0.0), (D, R.DRAINING)),
    "also by an ejected node": (EJECTED, Facts(drain_age_s=0.0), (D, R.DRAINING)),
    "an empty node is not drained before the workers know": (
        life(D, R.DRAINING, DRAIN_SETTLE_S - 0.1),
        Facts(drain_age_s=1.0, empty=True),
        (D, R.DRAINING),
    ),
    "and then is": (
        life(D, R.DRAINING, DRAIN_SETTLE_S),
        Facts(drain_age_s=1.0, empty=True),
        (D, R.DRAINED),
    ),
    "a drain waits for streams": (
        DRAINING,
        Facts(drain_age_s=5.0),
        (D, R.DRAINING),
    ),
    "a drain takes too long": (
        DRAINING,
        Facts(drain_age_s=S.drain_timeout_s + 1),
        (D, R.DRAIN_TIMED_OUT),
    ),
    "and ends all the same": (
        life(D, R.DRAIN_TIMED_OUT, 700.0),
        Facts(drain_age_s=700.0, empty=True),
        (D, R.DRAINED),
    ),
    "undrained is a ramp": (DRAINING, WELL, (W, R.UNDRAINED)),
    "undrained and down is lost": (DRAINING, Facts(R.ENGINE_DOWN), (L, R.ENGINE_DOWN)),
    "undrained and not healed is out": (
        replace(DRAINING, ejections=PENDING),
        WELL,
        (E, R.FAILURES),
    ),
}


@pytest.mark.parametrize("rule", CASES)
def test_what_a_node_becomes(rule: str) -> None:
    before, facts, (state, reason) = CASES[rule]
    after = step(before, facts, NOW_S, S)
    assert (after.state, after.standing.reason) == (state, reason)


@pytest.mark.parametrize("rule", CASES)
def test_the_time_of_a_state_begins_when_the_state_does(rule: str) -> None:
    before, facts, _ = CASES[rule]
    after = step(before, facts, NOW_S, S)
    assert after.since_s == (before.since_s if after.state is before.state else NOW_S)


def test_only_the_first_nodes_serve_at_once() -> None:
    assert first_life(None, NOW_S).state is SV
    assert first_life(R.RESTARTED, NOW_S).standing == Standing(W, R.RESTARTED)


def test_only_a_passed_trial_ends_an_ejection() -> None:
    out = eject(SERVING, R.FAILURES, NOW_S, S)
    assert out.out and out.ejections.pending and out.ejections.until_s == NOW_S + S.eject_base_s
    on_trial = step(out, WELL, NOW_S + S.eject_base_s, S)
    assert on_trial.out and on_trial.ejections.pending
    healed = step(on_trial, Facts(served=Served(3, 3)), NOW_S + 6.0, S)
    assert not healed.out and not healed.ejections.pending


def test_a_node_let_in_for_want_of_others_is_not_on_trial() -> None:
    back = let_in(TRIAL, NOW_S)
    assert back.standing == Standing(SU, R.MIN_CAPACITY)
    assert not back.out and not back.ejections.pending
    assert step(back, WELL, NOW_S + S.clean_s, S).state is SV
