"""A node that hangs is found within seconds; a long silent request is no hang."""

from __future__ import annotations

import pytest

from isocost.model import UNSUPPORTED, Signal, SignalState, measured
from tests.unit.weight.fleet_clock import TICK_S, FleetClock, NodeState, Reason

E, SV, SU = NodeState.EJECTED, NodeState.SERVING, NodeState.SUSPECT


def fleet() -> FleetClock:
    """Three nodes that answered well until now."""
    clock = FleetClock("a", "b", "c")
    clock.traffic = {name: {"succeeded": 2} for name in ("a", "b", "c")}
    clock.run(5.0)
    return clock


def hang(clock: FleetClock, requests: int) -> None:
    """From now on node b takes requests and does nothing."""
    clock.traffic["b"] = {}
    clock.frozen.add("b")
    clock.start("b", requests)


def test_a_node_that_hangs_is_out_within_ten_seconds() -> None:
    clock = fleet()
    hang(clock, 1)
    began_s = clock.now_s
    while clock.of("b")[0] is not E:
        assert clock.now_s - began_s < 10.0
        clock.tick()
        clock.start("b")
    assert clock.of("b") == (E, Reason.NO_PROGRESS)
    assert clock.now_s - began_s >= clock.settings.no_progress_s


def test_a_few_requests_at_once_are_enough() -> None:
    clock = fleet()
    hang(clock, 3)
    assert clock.seconds_until("b", E, 10.0) == pytest.approx(5.0, abs=2 * TICK_S)


@pytest.mark.parametrize("requests", [1, 2])
def test_one_or_two_silent_requests_of_a_minute_and_a_half_are_no_hang(requests: int) -> None:
    clock = fleet()
    hang(clock, requests)
    clock.run(90.0)
    assert clock.path("b") == [(SV, Reason.OK)]
    assert clock.factor("b") == 1.0


def test_streams_of_minutes_are_no_hang_while_the_engine_makes_tokens() -> None:
    clock = fleet()
    clock.traffic["b"] = {}
    clock.start("b", 20)
    clock.run(120.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_a_long_prompt_in_work_fills_kv_memory_and_is_no_hang() -> None:
    clock = fleet()
    hang(clock, 4)
    for step in range(100):
        clock.kv_usage["b"] = 0.5 + step / 1000
        clock.tick()
    assert clock.path("b") == [(SV, Reason.OK)]


def test_kv_memory_that_is_given_back_is_no_progress() -> None:
    clock = fleet()
    hang(clock, 4)
    for step in range(30):
        clock.kv_usage["b"] = 0.5 - step / 1000
        clock.tick()
    assert clock.of("b") == (E, Reason.NO_PROGRESS)


def test_any_request_that_ends_is_a_sign_of_life() -> None:
    clock = fleet()
    hang(clock, 6)
    for _ in range(5):
        clock.run(4.0)
        clock.end("b", client_errors=1)
        clock.start("b")
    assert clock.path("b") == [(SV, Reason.OK)]


def test_without_the_engines_counters_nothing_is_concluded() -> None:
    clock = fleet()
    clock.without_counters.add("b")
    hang(clock, 10)
    clock.run(60.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_tokens_that_count_at_a_requests_end_prove_no_hang() -> None:
    clock = fleet()
    clock.steps["b"] = UNSUPPORTED
    clock.run(1.0)
    hang(clock, 10)
    clock.run(60.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_steps_are_signs_of_life_where_tokens_are_none() -> None:
    clock = fleet()
    clock.steps["b"] = measured(0)
    hang(clock, 4)
    for step in range(100):
        clock.steps["b"] = measured(step)
        clock.tick()
    assert clock.path("b") == [(SV, Reason.OK)]
    clock.start("b", 4)
    assert clock.seconds_until("b", E, 10.0) == pytest.approx(5.0, abs=2 * TICK_S)


def test_clients_that_give_up_at_once_are_no_evidence() -> None:
    clock = fleet()
    hang(clock, 5)
    for _ in range(100):
        clock.tick()
        clock.end("b", client_aborts=5)
        clock.start("b", 5)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_requests_that_clients_gave_up_are_not_waited_for() -> None:
    clock = fleet()
    hang(clock, 5)
    clock.run(2.0)
    clock.end("b", client_aborts=5)
    clock.run(60.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_a_silent_agents_old_counters_prove_nothing() -> None:
    clock = fleet()
    clock.silent_since_s = dict.fromkeys(("a", "b", "c"), clock.now_s)
    hang(clock, 10)
    clock.run(20.0)
    assert clock.of("b") == (SU, Reason.COLLECTOR_STALE)


def test_a_hang_gets_no_trial_while_its_requests_still_wait() -> None:
    clock = fleet()
    hang(clock, 5)
    clock.seconds_until("b", E, 10.0)
    clock.run(60.0)
    assert clock.of("b") == (E, Reason.NO_PROGRESS)
    clock.frozen.clear()
    clock.run(2 * TICK_S)
    assert clock.of("b") == (SU, Reason.TRIAL)


def test_a_trial_that_hangs_again_costs_its_few_requests() -> None:
    clock = fleet()
    hang(clock, 5)
    clock.seconds_until("b", E, 10.0)
    clock.end("b", client_aborts=5)
    clock.seconds_until("b", SU, 6.0)
    began_s = clock.now_s
    while clock.of("b")[0] is SU:
        assert clock.now_s - began_s < 10.0
        if clock.factor("b") > 0.0:
            clock.start("b")
        clock.tick()
    assert clock.of("b") == (E, Reason.NO_PROGRESS)
    assert clock.open_requests("b") == clock.settings.trial_requests


def test_a_hang_that_may_not_be_ejected_has_the_lowest_share() -> None:
    clock = FleetClock("b")
    clock.tick()
    hang(clock, 5)
    clock.run(6.0)
    assert clock.of("b") == (SU, Reason.NO_PROGRESS)
    assert clock.factor("b") == clock.settings.suspect_share * clock.settings.lowest_share


def test_requests_that_begin_with_the_last_sign_of_life_are_waited_for() -> None:
    clock = fleet()
    hang(clock, 3)
    clock.once("b", succeeded=2)
    assert clock.seconds_until("b", E, 10.0) == pytest.approx(5.0, abs=2 * TICK_S)


def test_when_one_of_the_ejected_must_come_back_it_is_not_the_one_that_still_hangs() -> None:
    clock = FleetClock("a", "b", "c", "d")
    clock.traffic = {name: {"succeeded": 2} for name in ("a", "b", "c", "d")}
    clock.run(5.0)
    hang(clock, 5)
    clock.seconds_until("b", E, 10.0)
    clock.traffic["c"] = {"resets": 4}
    clock.seconds_until("c", E, 10.0)
    clock.traffic["c"] = {}
    clock.seconds_until("c", SU, 6.0)
    clock.engine_down.add("d")
    clock.tick()
    assert clock.of("b") == (E, Reason.NO_PROGRESS)
    assert clock.of("c") == (SU, Reason.MIN_CAPACITY)


def queue(clock: FleetClock) -> None:
    """From now on node b takes one request, and six wait in its engine."""
    hang(clock, 1)
    clock.engine_waiting["b"] = measured(6)


def test_a_queue_that_nobody_here_waits_in_is_no_hang() -> None:
    clock = fleet()
    queue(clock)
    clock.end("b", client_aborts=1)
    clock.run(8.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_a_queue_of_an_engine_that_works_is_no_hang() -> None:
    clock = fleet()
    queue(clock)
    clock.frozen = set()
    clock.run(60.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_a_queue_is_judged_anew_after_each_sign_of_life() -> None:
    clock = fleet()
    queue(clock)
    for _ in range(5):
        clock.frozen = {"b"}
        clock.run(4.0)
        clock.frozen = set()
        clock.tick()
    assert clock.path("b") == [(SV, Reason.OK)]


def test_an_old_queue_proves_nothing() -> None:
    clock = fleet()
    queue(clock)
    clock.engine_waiting["b"] = Signal(SignalState.STALE, 6.0, 2.0)
    clock.run(60.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_a_queue_without_counters_proves_nothing() -> None:
    clock = fleet()
    queue(clock)
    clock.without_counters = {"b"}
    clock.run(60.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_an_engine_that_begins_with_a_queue_has_its_time() -> None:
    clock = fleet()
    queue(clock)
    clock.restart("b")
    clock.start("b")
    clock.run(4.0)
    assert clock.of("b") == (NodeState.WARMING, Reason.RESTARTED)
    assert clock.seconds_until("b", E, 2.0) > 0.0
