"""A metrics page that hangs is not an engine that is down: the gateways know better."""

from __future__ import annotations

import pytest

from isocost.model import NodeSample
from isocost.score.telemetry import engine_idle
from tests.unit.fleet_builder import node
from tests.unit.weight.fleet_clock import FleetClock, NodeState, Reason

SV, SU, L = NodeState.SERVING, NodeState.SUSPECT, NodeState.LOST
STALE = (SU, Reason.COLLECTOR_STALE)


def fleet() -> FleetClock:
    clock = FleetClock(*"abcd")
    clock.traffic = {name: {"succeeded": 1} for name in "abcd"}
    clock.run(3.0)
    return clock


def test_a_page_that_hangs_alone_leaves_a_node_that_answers_in_service() -> None:
    clock = fleet()
    clock.page_hangs = {"b"}
    clock.run(60.0)
    assert clock.path("b") == [(SV, Reason.OK)]


def test_without_answers_it_is_an_engine_that_is_down() -> None:
    clock = fleet()
    clock.traffic["b"] = {}
    clock.page_hangs = {"b"}
    assert clock.seconds_until("b", L, 10.0) == pytest.approx(clock.settings.window_s, abs=0.5)
    assert clock.of("b") == (L, Reason.ENGINE_DOWN)


def test_failures_are_no_answers() -> None:
    clock = fleet()
    clock.traffic["b"] = {"server_errors": 1}
    clock.run(clock.settings.window_s)
    clock.page_hangs = {"b"}
    clock.tick()
    assert clock.of("b") == (L, Reason.ENGINE_DOWN)


def test_a_page_that_is_refused_is_an_engine_that_is_down_whatever_it_answered() -> None:
    clock = fleet()
    clock.engine_down = {"b"}
    clock.tick()
    assert clock.of("b") == (L, Reason.ENGINE_DOWN)


def test_when_most_pages_hang_their_engines_serve_on_without_any_answer() -> None:
    clock = fleet()
    clock.traffic = {}
    clock.run(10.0)
    clock.page_hangs = {"a", "b", "c"}
    clock.run(120.0)
    assert [clock.of(name) for name in "abcd"] == [STALE] * 3 + [(SV, Reason.OK)]
    clock.page_hangs = set()
    clock.tick()
    assert [clock.of(name) for name in "abcd"] == [(SV, Reason.OK)] * 4


def test_when_all_hang_all_serve_on() -> None:
    clock = fleet()
    clock.traffic = {}
    clock.page_hangs = set("abcd")
    clock.run(120.0)
    assert [clock.of(name) for name in "abcd"] == [STALE] * 4
    assert min(clock.factor(name) for name in "abcd") > 0.0


def test_those_whose_pages_hung_first_come_back_when_the_others_follow() -> None:
    clock = fleet()
    clock.traffic = {}
    clock.run(10.0)
    for name in "abc":
        clock.page_hangs.add(name)
        clock.run(1.0)
    assert [clock.of(name) for name in "abc"] == [STALE] * 3


@pytest.mark.parametrize(("silent", "idle"), [(False, True), (True, False)])
def test_an_engine_that_is_down_works_on_nothing_and_of_a_silent_one_nobody_knows(
    silent: bool, idle: bool
) -> None:
    assert engine_idle(NodeSample(node(), engine_up=False, engine_silent=silent)) == idle
