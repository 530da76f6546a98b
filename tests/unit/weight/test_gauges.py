"""An engine's page that stands still while work is done is stale; one stuck at work is tried."""

from __future__ import annotations

import numpy as np
import pytest

from isocost.config import StateSettings
from isocost.model import ABSENT, Signal, SignalState, measured
from tests.unit.weight.fleet_clock import TICK_S, FleetClock, NodeState, Reason

SV, SU, W = NodeState.SERVING, NodeState.SUSPECT, NodeState.WARMING
TRIED = (SU, Reason.IDLE_STUCK)


def fleet(settings: StateSettings | None = None) -> FleetClock:
    """Nodes that answer, with pages that follow."""
    clock = FleetClock(*"abcd", settings=settings)
    clock.traffic = {item.name: {"succeeded": 1} for item in clock.nodes}
    for item in clock.nodes:
        clock.start(item.name, 4)
    clock.run(5.0)
    return clock


def found(clock: FleetClock, guard: str) -> list[str]:
    """The nodes of which the guard has found something."""
    flags = clock.scored.found[guard]
    return [clock.nodes[index].name for index in np.flatnonzero(flags).tolist()]


def load_states(clock: FleetClock, name: str) -> set[SignalState]:
    """Of running, waiting and KV usage."""
    told, index = clock.scored.telemetry, clock.index(name)
    return {SignalState(int(c.state[index])) for c in (told.running, told.waiting, told.kv_usage)}


def test_a_page_that_stands_still_while_answers_come_is_stale_within_four_seconds() -> None:
    clock = fleet()
    clock.still = {"b"}
    clock.run(4.0)
    assert found(clock, "frozen") == ["b"]
    assert load_states(clock, "b") == {SignalState.STALE}
    assert load_states(clock, "a") == {SignalState.MEASURED}


def test_it_is_stale_after_the_time_that_is_set() -> None:
    clock = fleet(StateSettings(frozen_s=10.0))
    clock.still = {"b"}
    clock.run(9.0)
    assert found(clock, "frozen") == []
    clock.run(2.0)
    assert found(clock, "frozen") == ["b"]


def test_what_it_said_decays_toward_the_others() -> None:
    clock = fleet()
    clock.kv_usage["b"] = 0.0
    clock.run(0.4)
    clock.still = {"b"}
    clock.run(2.0)
    before = clock.scored.terms.kv[clock.index("b")]
    clock.run(20.0)
    terms = clock.scored.terms.kv
    assert before < 0.1 * terms[clock.index("a")]
    assert terms[clock.index("b")] == pytest.approx(terms[clock.index("a")], rel=0.05)


def test_a_page_that_moves_again_is_believed_at_once() -> None:
    clock = fleet()
    clock.still = {"b"}
    clock.run(6.0)
    clock.still = set()
    clock.run(TICK_S)
    assert found(clock, "frozen") == []
    assert load_states(clock, "b") == {SignalState.MEASURED}


def test_a_page_that_stands_still_because_nothing_comes_is_true() -> None:
    clock = fleet()
    clock.traffic["b"] = {}
    clock.end("b", succeeded=4)
    clock.run(60.0)
    assert found(clock, "frozen") == []
    assert load_states(clock, "b") == {SignalState.MEASURED}


def test_the_last_answers_of_a_load_that_ends_are_no_sign() -> None:
    """The gateways tell of them after the page has counted their tokens."""
    clock = fleet()
    clock.traffic["b"] = {}
    clock.still = {"b"}
    clock.run(0.6)
    clock.end("b", succeeded=4)
    clock.run(30.0)
    assert found(clock, "frozen") == []


def test_answers_that_began_before_it_stood_still_are_no_sign() -> None:
    clock = fleet()
    clock.traffic["b"] = {}
    clock.still = {"b"}
    clock.run(2.0)
    clock.end("b", succeeded=4)
    clock.run(30.0)
    assert found(clock, "frozen") == []


def test_answers_to_wrong_requests_move_no_counter_and_are_no_sign() -> None:
    clock = fleet()
    clock.traffic["b"] = {"client_errors": 3}
    clock.end("b", succeeded=4)
    clock.frozen.add("b")
    clock.run(30.0)
    assert found(clock, "frozen") == []


def test_of_pages_without_counters_nothing_is_concluded() -> None:
    clock = fleet()
    clock.without_counters = {"b"}
    clock.run(TICK_S)
    clock.still = {"b"}
    clock.run(30.0)
    assert found(clock, "frozen") == []


def stuck(clock: FleetClock, name: str) -> None:
    """All of its requests were cancelled at once, and its page shows them for ever."""
    clock.traffic[name] = {}
    clock.end(name, client_aborts=clock.open_requests(name))
    clock.frozen.add(name)
    clock.engine_running[name] = measured(106)
    clock.kv_usage[name] = 0.99


def test_a_node_that_says_it_works_for_ever_and_has_nothing_of_ours_is_tried() -> None:
    clock = fleet()
    stuck(clock, "b")
    began_s = clock.now_s
    while clock.of("b") != TRIED:
        assert clock.now_s - began_s < 15.0, clock.of("b")
        clock.tick()
    assert clock.now_s - began_s >= clock.settings.idle_stuck_s
    assert 0.0 < clock.factor("b") <= clock.settings.trial_share
    assert load_states(clock, "b") == {SignalState.STALE}


def test_if_it_answers_it_serves_again_and_its_page_is_not_believed_until_it_moves() -> None:
    clock = fleet()
    stuck(clock, "b")
    clock.run(12.0)
    clock.once("b", succeeded=3)
    clock.seconds_until("b", W, 2.0)
    clock.seconds_until("b", SV, 15.0)
    assert found(clock, "idle_stuck") == ["b"]
    assert load_states(clock, "b") == {SignalState.STALE}
    clock.run(60.0)
    assert clock.path("b")[-3:] == [TRIED, (W, Reason.HEALED), (SV, Reason.OK)]
    # The first step of its engine tells what is true.
    del clock.engine_running["b"]
    clock.run(TICK_S)
    assert found(clock, "idle_stuck") == []
    assert load_states(clock, "b") == {SignalState.MEASURED}


def test_if_it_hangs_it_costs_a_few_requests() -> None:
    clock = fleet()
    stuck(clock, "b")
    clock.run(12.0)
    sent = 0
    while clock.of("b")[0] is not NodeState.EJECTED:
        assert sent < 100
        if clock.factor("b") > 0.0:
            clock.start("b")
            sent += 1
        clock.tick()
    # Two ticks pass before a started request shows.
    assert sent <= clock.settings.trial_requests + 2
    assert clock.of("b")[1] is Reason.NO_PROGRESS


def test_a_node_that_drains_is_not_tried() -> None:
    clock = fleet()
    clock.drains["b"] = clock.now_s
    stuck(clock, "b")
    clock.run(20.0)
    assert found(clock, "idle_stuck") == ["b"]
    assert clock.of("b")[0] is NodeState.DRAINING
    assert TRIED not in clock.path("b")


def test_a_queue_alone_is_work_that_is_said_to_be_there() -> None:
    clock = fleet()
    stuck(clock, "b")
    clock.engine_running["b"], clock.engine_waiting["b"] = measured(0), measured(6)
    clock.run(12.0)
    assert clock.of("b") == TRIED


def test_a_request_that_is_open_is_reason_enough_to_work() -> None:
    """One that is silent for long is no hang either."""
    clock = fleet()
    stuck(clock, "b")
    clock.start("b")
    clock.run(60.0)
    assert found(clock, "idle_stuck") == []
    assert clock.path("b") == [(SV, Reason.OK)]


def test_a_node_that_is_asked_now_and_then_is_not_idle() -> None:
    clock = fleet()
    stuck(clock, "b")
    for _ in range(6):
        clock.once("b", client_aborts=1)
        clock.run(5.0)
        assert found(clock, "idle_stuck") == []


def test_of_counters_that_are_old_nothing_is_concluded() -> None:
    clock = fleet()
    stuck(clock, "b")
    clock.steps["b"] = Signal(SignalState.STALE, 5.0, 2.0)
    clock.run(30.0)
    assert found(clock, "idle_stuck") == []


def test_a_new_roster_keeps_what_is_known_of_those_that_stay() -> None:
    clock = fleet()
    stuck(clock, "c")
    clock.run(12.0)
    clock.start("c")
    clock.tick()
    del clock.nodes[1]
    clock.tick()
    assert found(clock, "idle_stuck") == ["c"]
    assert load_states(clock, "c") == {SignalState.STALE}


def test_work_that_came_past_the_gateways_is_no_cause() -> None:
    clock = fleet()
    stuck(clock, "b")
    for _ in range(100):
        clock.kv_usage["b"] = 0.9 if clock.kv_usage["b"] > 0.95 else 0.99
        clock.tick()
    assert clock.of("b") == (SV, Reason.OK)


def test_an_idle_node_is_not_stuck() -> None:
    clock = fleet()
    clock.traffic["b"] = {}
    clock.end("b", succeeded=4)
    clock.run(60.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_when_most_are_stuck_at_once_nobody_is_tried_and_no_page_is_believed() -> None:
    clock = fleet()
    for name in "abc":
        stuck(clock, name)
    clock.run(30.0)
    assert [clock.of(name)[0] for name in "abcd"] == [SV] * 4
    assert found(clock, "idle_stuck") == ["a", "b", "c"]


def test_while_no_gateway_speaks_nobody_knows_what_is_open_there() -> None:
    clock = fleet()
    stuck(clock, "b")
    clock.gateway_silent = True
    clock.run(30.0)
    assert found(clock, "idle_stuck") == []


def test_an_engine_that_admits_nothing_is_out_although_few_requests_wait() -> None:
    """Running 0, KV 0 %, waiting 6 for an hour: by two of three numbers the idlest of all."""
    clock = fleet()
    clock.traffic["b"] = {}
    clock.end("b", succeeded=3)
    clock.frozen.add("b")
    clock.kv_usage["b"] = 0.0
    clock.engine_running["b"], clock.engine_waiting["b"] = measured(0), measured(6)
    assert clock.seconds_until("b", NodeState.EJECTED, 10.0) >= clock.settings.no_progress_s
    assert clock.of("b")[1] is Reason.NO_PROGRESS


def test_an_engine_that_was_stuck_idle_and_admits_nothing_is_out_as_well() -> None:
    clock = fleet()
    stuck(clock, "b")
    clock.engine_running["b"], clock.engine_waiting["b"] = measured(0), measured(6)
    clock.run(15.0)
    assert clock.of("b") == TRIED
    clock.start("b")
    assert clock.seconds_until("b", NodeState.EJECTED, 10.0) >= clock.settings.no_progress_s
    assert clock.of("b")[1] is Reason.NO_PROGRESS


def test_a_page_that_is_known_to_stand_still_makes_no_hang_of_long_answers() -> None:
    clock = fleet()
    clock.still = {"b"}
    clock.run(6.0)
    assert found(clock, "frozen") == ["b"]
    clock.traffic["b"] = {}
    clock.end("b", succeeded=4)
    clock.start("b", 4)
    clock.run(60.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_a_queue_that_is_not_known_is_none() -> None:
    clock = fleet()
    clock.traffic["b"] = {}
    clock.end("b", succeeded=3)
    clock.frozen.add("b")
    clock.engine_waiting["b"] = ABSENT
    clock.run(60.0)
    assert clock.of("b") == (SV, Reason.OK)
