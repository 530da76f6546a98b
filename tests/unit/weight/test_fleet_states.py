"""Whole lives of nodes on a fake clock: warm, fail, heal, hang, drain, fall silent."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from isocost.config import StateSettings
from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState, measured
from isocost.weight import fleet_states, lifecycle
from isocost.weight.lifecycle import Facts, Life
from tests.unit.weight.fleet_clock import LOST_AFTER_S, TICK_S, FleetClock, NodeState, Reason

WELL = {"succeeded": 4}
W, SV, SU, D, E, L = (
    NodeState.WARMING,
    NodeState.SERVING,
    NodeState.SUSPECT,
    NodeState.DRAINING,
    NodeState.EJECTED,
    NodeState.LOST,
)


def fleet(*names: str) -> FleetClock:
    """Nodes with twenty good requests a second each."""
    made = FleetClock(*(names or ("a", "b", "c", "d")))
    made.traffic = {item.name: dict(WELL) for item in made.nodes}
    made.tick()
    return made


def test_the_first_nodes_serve_at_once() -> None:
    clock = fleet()
    assert clock.count(SV) == 4
    assert clock.state.factor.tolist() == [1.0] * 4


def test_a_node_that_comes_later_gets_its_share_in_a_ramp() -> None:
    clock = fleet("a", "b")
    clock.nodes.append(replace(clock.nodes[0], name="c", instance_id="c@1"))
    clock.tick()
    assert clock.of("c") == (W, Reason.NEW)
    assert clock.factor("c") == pytest.approx(0.1)
    clock.run(5.0)
    assert clock.factor("c") == pytest.approx(0.55)
    assert clock.seconds_until("c", SV, 5.0 + TICK_S) == pytest.approx(5.0)
    assert clock.factor("c") == 1.0
    assert clock.path("c") == [(W, Reason.NEW), (SV, Reason.OK)]


def test_a_restarted_engine_warms() -> None:
    clock = fleet()
    clock.restart("b")
    clock.tick()
    assert clock.of("b") == (W, Reason.RESTARTED)
    assert clock.of("a") == (SV, Reason.OK)


def test_an_engine_whose_start_becomes_known_is_no_other() -> None:
    clock = FleetClock("a", "b")
    clock.without_agent = {"a", "b"}
    clock.nodes = [replace(item, instance_id=f"{item.name}@0") for item in clock.nodes]
    clock.tick()
    assert clock.of("a") == (SV, Reason.NO_TELEMETRY)
    clock.without_agent.clear()
    clock.nodes = [replace(item, instance_id=f"{item.name}@17") for item in clock.nodes]
    clock.tick()
    assert clock.of("a") == (SV, Reason.OK)


def test_a_lost_engine_is_out_at_once_and_returns_in_a_ramp() -> None:
    clock = fleet()
    clock.engine_down.add("b")
    clock.tick()
    assert clock.of("b") == (L, Reason.ENGINE_DOWN)
    assert clock.factor("b") == 0.0
    clock.engine_down.clear()
    clock.tick()
    assert clock.of("b") == (W, Reason.RETURNED)
    clock.run(10.0)
    assert clock.of("b") == (SV, Reason.OK)


def test_facts_are_not_limited_by_the_cap() -> None:
    clock = fleet()
    clock.engine_down |= {"a", "b", "c", "d"}
    clock.tick()
    assert clock.count(L) == 4


@pytest.mark.parametrize("kind", ["server_errors", "resets", "failed_attempts"])
def test_a_node_that_fails_everything_is_soon_below_its_share_and_then_out(kind: str) -> None:
    clock = fleet()
    clock.run(30.0)
    clock.traffic["b"] = {kind: 4}
    began_s = clock.now_s
    while clock.factor("b") >= 0.9:
        clock.tick()
    assert clock.now_s - began_s <= 5.0
    clock.seconds_until("b", E, 10.0 - (clock.now_s - began_s))
    assert clock.factor("b") == 0.0
    assert clock.of("b") == (E, Reason.FAILURES)
    assert clock.count(SV) == 3


def test_a_node_with_little_traffic_is_ejected_as_well() -> None:
    clock = FleetClock("a", "b")
    clock.tick()
    began_s = clock.now_s
    while clock.of("b")[0] is not E:
        assert clock.now_s - began_s < 15.0
        clock.once("b", server_errors=1)
        clock.once("a", succeeded=1)
        # A request every two seconds: the window never holds five.
        clock.run(2.0)


def test_a_healed_node_has_its_whole_share_within_its_slow_start_after_its_trial() -> None:
    clock = fleet()
    clock.traffic["b"] = {"resets": 4}
    clock.seconds_until("b", E, 10.0)
    clock.traffic["b"] = dict(WELL)
    assert clock.seconds_until("b", SU, 6.0) == pytest.approx(5.0, abs=2 * TICK_S)
    assert clock.of("b") == (SU, Reason.TRIAL)
    assert 0.0 < clock.factor("b") <= clock.settings.trial_share
    clock.seconds_until("b", W, 2.0)
    assert clock.of("b") == (W, Reason.HEALED)
    clock.seconds_until("b", SV, clock.settings.slow_start_s + TICK_S)
    assert clock.factor("b") == 1.0


def test_a_failed_trial_costs_few_requests_and_the_next_ejection_is_longer() -> None:
    clock = fleet()
    clock.traffic["b"] = {"server_errors": 1}
    clock.seconds_until("b", E, 10.0)
    lengths = []
    for _ in range(3):
        lengths.append(clock.seconds_until("b", SU, 100.0))
        cost_s = clock.seconds_until("b", E, 10.0)
        assert cost_s <= 2 * TICK_S
    assert lengths == pytest.approx([5.0, 10.0, 20.0], abs=2 * TICK_S)


def test_a_trial_that_hears_nothing_gets_no_more_than_its_few_requests() -> None:
    clock = fleet()
    clock.without_counters.add("b")
    clock.traffic["b"] = {"server_errors": 4}
    clock.seconds_until("b", E, 10.0)
    clock.traffic["b"] = {}
    clock.seconds_until("b", SU, 6.0)
    for _ in range(40):
        if clock.factor("b") > 0.0:
            clock.start("b")
        clock.tick()
    assert clock.of("b") == (SU, Reason.TRIAL)
    assert clock.open_requests("b") == clock.settings.trial_requests


def test_without_traffic_a_trial_ends_by_itself() -> None:
    clock = fleet()
    clock.traffic["b"] = {"resets": 4}
    clock.seconds_until("b", E, 10.0)
    clock.traffic = {}
    clock.seconds_until("b", SV, 5.0 + clock.settings.trial_quiet_s + 10.0 + 1.0)


def test_some_failures_lower_the_share_by_just_as_much() -> None:
    clock = fleet()
    clock.traffic["b"] = {"succeeded": 9, "server_errors": 1}
    clock.run(6.0)
    assert clock.of("b") == (SV, Reason.OK)
    assert clock.factor("b") == pytest.approx(0.9)


def test_a_suspect_has_half_of_what_its_answers_leave_and_is_held_until_clean_for_long() -> None:
    clock = fleet()
    clock.traffic["b"] = {"succeeded": 6, "resets": 4}
    clock.run(6.0)
    assert clock.of("b") == (SU, Reason.FAILURES)
    assert clock.factor("b") == pytest.approx(0.5 * 0.6)
    clock.traffic["b"] = dict(WELL)
    clock.run(10.0)
    assert clock.of("b") == (SU, Reason.FAILURES)
    clock.seconds_until("b", SV, clock.settings.window_s + TICK_S)


@pytest.mark.parametrize("kind", ["client_errors", "client_aborts"])
def test_fifty_errors_of_clients_change_no_state_and_no_share(kind: str) -> None:
    clock = fleet()
    clock.once("b", **{kind: 50})
    clock.run(6.0)
    clock.traffic["b"] = {kind: 50}
    clock.run(10.0)
    assert clock.path("b") == [(SV, Reason.OK)]
    assert clock.factor("b") == 1.0


def test_429_lowers_the_share_down_to_the_floor_and_never_the_state() -> None:
    clock = fleet()
    clock.traffic["b"] = {"succeeded": 2, "rate_limited": 2}
    clock.run(10.0)
    assert clock.factor("b") == pytest.approx(0.5)
    clock.traffic["b"] = {"rate_limited": 40}
    clock.run(30.0)
    assert clock.factor("b") == clock.settings.lowest_share
    assert clock.path("b") == [(SV, Reason.OK)]
    clock.traffic["b"] = dict(WELL)
    clock.run(6.0)
    assert clock.factor("b") == 1.0


def test_when_all_fail_together_half_stays_in_and_gets_the_traffic() -> None:
    names = [f"n{number}" for number in range(8)]
    clock = fleet(*names)
    for name in names:
        clock.traffic[name] = {"server_errors": 4}
    for _ in range(round(200.0 / TICK_S)):
        clock.tick()
        trials = sum(clock.of(name)[1] is Reason.TRIAL for name in names)
        assert clock.count(E) + trials <= 4
        in_service = [name for name in names if clock.of(name)[0] is SU]
        assert sum(clock.factor(name) > 0 for name in in_service) >= 4
    for name in names:
        clock.traffic[name] = dict(WELL)
    clock.run(400.0)
    assert clock.count(SV) == 8


def test_the_worst_is_ejected_first() -> None:
    clock = fleet("a", "b")
    clock.traffic["a"] = {"succeeded": 4, "resets": 6}
    clock.traffic["b"] = {"succeeded": 1, "resets": 9}
    clock.run(2.0)
    assert clock.of("b") == (E, Reason.FAILURES)
    assert clock.of("a") == (SU, Reason.FAILURES)


def test_the_only_node_of_a_model_is_never_ejected() -> None:
    clock = fleet("a", "b", "c", "d")
    other = replace(clock.nodes[3].models[0], name="other")
    clock.nodes[3] = replace(clock.nodes[3], models=(other,))
    clock.traffic["d"] = {"server_errors": 4}
    clock.run(20.0)
    assert clock.of("d") == (SU, Reason.FAILURES)
    assert clock.factor("d") > 0.0


def test_nodes_without_models_are_one_group() -> None:
    clock = fleet("a", "b", "c", "d")
    clock.nodes = [replace(item, models=()) for item in clock.nodes]
    for name in ("a", "b", "c"):
        clock.traffic[name] = {"server_errors": 4}
    clock.run(3.0)
    assert clock.count(E) == 2


def test_a_node_held_at_zero_by_hand_is_none_that_stays() -> None:
    clock = fleet("a", "b")
    clock.held.add("a")
    clock.traffic["b"] = {"server_errors": 4}
    clock.run(10.0)
    assert clock.of("b") == (SU, Reason.FAILURES)


def test_an_ejected_node_is_let_in_when_the_others_are_lost() -> None:
    clock = fleet("a", "b")
    clock.traffic["b"] = {"resets": 4}
    clock.seconds_until("b", E, 10.0)
    clock.engine_down.add("a")
    clock.tick()
    assert clock.of("b") == (SU, Reason.MIN_CAPACITY)
    assert clock.factor("b") > 0.0


def test_an_agent_that_is_silent_loses_its_node_which_returns_in_a_ramp() -> None:
    clock = fleet()
    clock.silent_since_s["b"] = clock.now_s
    assert clock.seconds_until("b", L, 4.0) == pytest.approx(LOST_AFTER_S, abs=2 * TICK_S)
    assert clock.of("b") == (L, Reason.AGENT_SILENT)
    del clock.silent_since_s["b"]
    clock.tick()
    assert clock.of("b") == (W, Reason.RETURNED)


@pytest.mark.parametrize("spread_s", [0.0, 0.2, 1.0])
def test_when_most_agents_fall_silent_together_the_collector_is_at_fault(spread_s: float) -> None:
    clock = fleet()
    for place, name in enumerate(("a", "b", "c")):
        clock.silent_since_s[name] = clock.now_s + place * spread_s / 2
    clock.run(60.0)
    for name in ("a", "b", "c"):
        assert clock.of(name) == (SU, Reason.COLLECTOR_STALE)
        assert L not in [state for state, _ in clock.path(name)]
        assert clock.factor(name) == clock.settings.suspect_share
    assert clock.of("d") == (SV, Reason.OK)
    clock.silent_since_s.clear()
    clock.tick()
    assert clock.count(SV) == 4


def test_agents_that_fall_silent_one_by_one_are_lost() -> None:
    clock = fleet()
    for name in ("a", "b", "c"):
        clock.silent_since_s[name] = clock.now_s
        clock.run(10.0)
    assert clock.count(L) == 3


def test_drained_is_no_weight_and_open_streams_are_waited_for() -> None:
    clock = fleet()
    clock.start("b", 2)
    clock.tick()
    clock.drains["b"] = clock.now_s
    clock.tick()
    assert clock.of("b") == (D, Reason.DRAINING)
    assert clock.factor("b") == 0.0
    clock.run(30.0)
    assert clock.of("b") == (D, Reason.DRAINING)
    clock.end("b", succeeded=2)
    clock.tick()
    assert clock.of("b") == (D, Reason.DRAINED)
    clock.drains.clear()
    clock.tick()
    assert clock.of("b") == (W, Reason.UNDRAINED)
    clock.run(10.0)
    assert clock.of("b") == (SV, Reason.OK)


def test_while_no_gateway_speaks_nothing_is_drained() -> None:
    clock = fleet()
    clock.gateway_silent = True
    clock.drains["b"] = clock.now_s
    clock.run(10.0)
    assert clock.of("b") == (D, Reason.DRAINING)
    clock.gateway_silent = False
    clock.tick()
    assert clock.of("b") == (D, Reason.DRAINED)


def test_a_gateway_that_fell_silent_with_open_requests_does_not_make_a_node_drained() -> None:
    clock = fleet()
    clock.start("b", 5)
    clock.tick()
    clock.gateway_silent = True
    clock.drains["b"] = clock.now_s
    # Not even where the engine has nothing at this moment.
    clock.engine_running["b"] = measured(0)
    clock.run(30.0)
    assert clock.of("b") == (D, Reason.DRAINING)


@pytest.mark.parametrize("running", [measured(1), ABSENT, Signal(SignalState.STALE)])
def test_a_node_is_not_drained_while_its_engine_may_have_work(running: Signal) -> None:
    clock = fleet()
    clock.engine_running["b"] = running
    clock.drains["b"] = clock.now_s
    clock.run(10.0)
    assert clock.of("b") == (D, Reason.DRAINING)
    clock.engine_running["b"] = measured(0)
    clock.tick()
    assert clock.of("b") == (D, Reason.DRAINED)


def test_an_old_sample_does_not_show_that_an_engine_has_no_work() -> None:
    clock = fleet()
    clock.silent_since_s["b"] = clock.now_s
    clock.drains["b"] = clock.now_s
    clock.run(10.0)
    assert clock.of("b") == (D, Reason.DRAINING)


def test_a_node_without_an_agent_or_whose_engine_is_down_is_drained_by_the_gateways() -> None:
    clock = fleet()
    clock.without_agent.add("b")
    clock.engine_down.add("c")
    clock.engine_running["d"] = UNSUPPORTED
    for name in ("b", "c", "d"):
        clock.drains[name] = clock.now_s
    clock.run(2.0)
    assert [clock.of(name)[1] for name in ("b", "c", "d")] == [Reason.DRAINED] * 3


def test_a_machine_with_most_nodes_that_dies_is_lost_and_no_fault_of_the_collector() -> None:
    clock = FleetClock(*"abcdefgh")
    clock.nodes = [
        replace(item, host="big" if item.name in "abcdef" else f"small-{item.name}")
        for item in clock.nodes
    ]
    clock.run(2.0)
    for name in "abcdef":
        clock.silent_since_s[name] = clock.now_s
    clock.run(5.0)
    assert clock.count(L) == 6
    assert clock.count(SV) == 2


def test_what_is_silent_and_fails_at_the_gateways_is_ejected_beyond_the_cap() -> None:
    clock = fleet(*"abcdef")
    for name in "abcd":
        clock.silent_since_s[name] = clock.now_s
        clock.traffic[name] = {"resets": 4}
    clock.run(5.0)
    assert [clock.of(name) for name in "abcd"] == [(E, Reason.FAILURES)] * 4
    assert clock.of("e") == (SV, Reason.OK)
    clock.silent_since_s.clear()
    clock.tick()
    assert sum(clock.of(name) == (SU, Reason.MIN_CAPACITY) for name in "abcd") == 1


def test_of_a_fleet_that_is_all_silent_and_fails_one_node_stays() -> None:
    clock = fleet()
    for name in "abcd":
        clock.silent_since_s[name] = clock.now_s
        clock.traffic[name] = {"resets": 4}
    clock.run(4.5)
    assert clock.count(E) == 3
    assert (clock.state.factor > 0.0).any()


@pytest.mark.parametrize("traffic", [{"succeeded": 2, "resets": 1}, {"resets": 4}])
def test_a_node_is_not_looked_at_again_before_something_is_new(
    traffic: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick of a fleet that is all suspect or all draining is as short as any other."""
    clock = fleet()
    for name in "abcd":
        clock.traffic[name] = traffic
    clock.run(4.0)
    steps: list[Life] = []

    def counted(life: Life, facts: Facts, now_s: float, settings: StateSettings) -> Life:
        steps.append(life)
        return lifecycle.step(life, facts, now_s, settings)

    monkeypatch.setattr(fleet_states, "step", counted)
    clock.run(0.6)
    assert clock.count(SU) >= 2
    assert not steps
    for name in "abcd":
        clock.drains[name] = clock.now_s
        clock.start(name)
    clock.run(2.0)
    assert steps
    steps.clear()
    clock.run(2.0)
    assert clock.count(D) == 4
    assert not steps


def test_a_drain_that_lasts_too_long_says_so_and_goes_on() -> None:
    clock = fleet()
    clock.start("b")
    clock.drains["b"] = clock.now_s
    clock.run(clock.settings.drain_timeout_s + 1.0)
    assert clock.of("b") == (D, Reason.DRAIN_TIMED_OUT)
    assert clock.factor("b") == 0.0


def test_a_drain_holds_for_the_next_instance_too() -> None:
    clock = fleet()
    clock.drains["b"] = clock.now_s
    clock.run(2.0)
    clock.restart("b")
    clock.tick()
    assert clock.of("b")[0] is D


def test_a_node_lost_while_ejected_still_has_its_trial_to_pass() -> None:
    clock = fleet()
    clock.traffic["b"] = {"resets": 4}
    clock.seconds_until("b", E, 10.0)
    clock.engine_down.add("b")
    clock.run(20.0)
    assert clock.of("b")[0] is L
    clock.engine_down.clear()
    clock.run(2 * TICK_S)
    assert clock.of("b") == (SU, Reason.TRIAL)


def test_nodes_that_leave_and_come_move_nobody_elses_memory() -> None:
    clock = fleet()
    clock.traffic["d"] = {"resets": 4}
    clock.seconds_until("d", E, 10.0)
    since_s = clock.state.since_s[clock.index("d")]
    del clock.nodes[0]
    clock.tick()
    assert clock.of("d") == (E, Reason.FAILURES)
    assert clock.state.since_s[clock.index("d")] == since_s
    assert clock.of("b") == (SV, Reason.OK)


def test_every_change_is_told_once() -> None:
    clock = fleet("a", "b")
    clock.traffic["b"] = {"resets": 4}
    clock.seconds_until("b", E, 10.0)
    changes = [change for change in clock.transitions if change.node == "b"]
    assert [change.before is None for change in changes] == [True] + [False] * (len(changes) - 1)
    for former, change in pairwise(changes):
        assert change.before == former.after
    assert changes[-1].at_s == clock.now_s
