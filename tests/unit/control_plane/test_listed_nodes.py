"""Nodes of a list, from its source to the published roster and table, on a fake clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isocost.discovery.listing import Check
from isocost.model import NodeState
from isocost.push.type_urls import ENDPOINTS, ROSTER
from isocost.weight.standing import Reason
from tests.unit.control_plane.listed_fleet import READY_S, Clock, fleet, listed, streaming


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isocost.discovery.probe.BETWEEN_S", 0.0)


def test_the_source_comes_30_s_late_and_nothing_empty_is_published_before() -> None:
    clock = Clock()
    clock.run(30.0)
    assert not clock.published
    clock.watch.says(clock.now_s, *fleet(1, 2))
    clock.run(READY_S)
    assert clock.nodes() == ["n1", "n2"]


def test_agents_are_served_after_the_settle_time_though_the_source_is_away() -> None:
    clock = Clock()
    clock.speaking = fleet(1, epoch=17)
    clock.run(4.8)
    assert not clock.published
    clock.run(0.6)
    assert clock.nodes() == ["n1"]


def test_a_source_that_starts_empty_does_not_empty_a_fleet_that_was_there() -> None:
    clock = Clock(expected={"n1", "n2"})
    clock.watch.says(0.0)
    clock.run(60.0)
    assert not clock.published
    clock.watch.says(clock.now_s, *fleet(1, 2))
    clock.run(READY_S)
    assert clock.nodes() == ["n1", "n2"]


def test_a_source_without_nodes_and_a_fleet_that_never_was_is_an_empty_roster() -> None:
    clock = Clock()
    clock.watch.says(0.0)
    clock.run(6.0)
    assert clock.published and clock.nodes() == []


@pytest.mark.parametrize("made", [listed, streaming])
def test_an_answer_that_is_empty_in_mid_run_changes_nothing(made: object) -> None:
    assert callable(made)
    clock: Clock = made(1, 2, 3, 4)
    before = clock.cache.snapshot.get(ROSTER)
    clock.watch.says(clock.now_s)
    clock.run(20.0)
    assert clock.cache.snapshot.get(ROSTER) is before
    assert all(clock.of(name)[0] is NodeState.SERVING for name in clock.nodes())


def test_an_equal_answer_publishes_no_roster_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = listed(1, 2)
    before = clock.cache.snapshot.get(ROSTER)
    caplog.clear()
    for _ in range(20):
        clock.watch.says(clock.now_s, *fleet(1, 2))
        clock.tick()
    assert clock.cache.snapshot.get(ROSTER) is before
    assert not caplog.records


def test_a_withdrawn_node_without_an_agent_leaves_at_the_next_tick_and_does_not_come_back() -> None:
    clock = listed(1, 2, 3)
    clock.watch.says(clock.now_s, *fleet(1, 2))
    clock.tick()
    assert clock.nodes() == ["n1", "n2"]
    clock.run(20.0)
    assert clock.nodes() == ["n1", "n2"]


def test_a_withdrawn_node_is_lost_as_soon_as_its_agent_is_silent() -> None:
    clock = streaming(1, 2, 3)
    clock.watch.says(clock.now_s, *fleet(1, 2))
    clock.run(10.0)
    assert clock.of("n3") == (NodeState.SERVING, Reason.OK)
    del clock.speaking[2]
    clock.run(0.8)
    assert clock.of("n3") == (NodeState.LOST, Reason.WITHDRAWN)


async def test_a_ghost_that_is_listed_as_passing_is_taken_out() -> None:
    clock = listed(1, 2, 3)
    await clock.refuse("192.0.2.2:80")
    clock.tick()
    assert clock.of("n2") == (NodeState.LOST, Reason.UNREACHABLE)
    assert clock.of("n1") == (NodeState.SERVING, Reason.NO_TELEMETRY)
    await clock.refuse()
    clock.run(6.0)
    assert clock.of("n2") == (NodeState.WARMING, Reason.RETURNED)


def test_a_new_node_whose_first_check_fails_gets_traffic_only_after_it_was_good_for_a_while() -> (
    None
):
    clock = listed(1, 2)
    clock.run(6.0)
    clock.watch.says(clock.now_s, *fleet(1, 2, 3))
    clock.tick()
    assert clock.of("n3") == (NodeState.WARMING, Reason.NEW)
    latest = clock.pipeline.latest
    assert latest is not None and latest.decision.state.factor[2] == pytest.approx(0.1)
    clock.watch.says(clock.now_s, *fleet(1, 2, 3), n3=Check.CRITICAL)
    clock.tick()
    assert clock.of("n3") == (NodeState.LOST, Reason.CHECK_CRITICAL)
    clock.watch.says(clock.now_s, *fleet(1, 2, 3))
    clock.run(4.8)
    assert clock.of("n3") == (NodeState.LOST, Reason.CHECK_RECOVERING)
    clock.run(0.6)
    assert clock.of("n3") == (NodeState.WARMING, Reason.RETURNED)


def test_a_check_that_flaps_every_second_takes_its_node_out_once_in_a_minute() -> None:
    clock = streaming(1, 2, 3)
    clock.in_flight["n3"] = 4
    for second in range(60):
        check = Check.PASSING if second % 2 else Check.CRITICAL
        clock.watch.says(clock.now_s, *fleet(1, 2, 3), n3=check)
        clock.run(1.0)
    changes = clock.pipeline.transitions
    assert sum(count for (before, _, _), count in changes.items() if before == "serving") == 1
    assert ("lost", "warming", "returned") not in changes
    latest = clock.pipeline.latest
    assert latest is not None and latest.observed.in_flight.tolist() == [0, 0, 4]
    clock.in_flight.clear()
    clock.watch.says(clock.now_s, *fleet(1, 2, 3))
    clock.run(6.0)
    assert clock.of("n3")[0] is NodeState.WARMING
    assert clock.pipeline.latest is not None
    assert clock.pipeline.latest.observed.in_flight.tolist() == [0, 0, 0]


def test_a_source_that_does_not_answer_for_an_hour_stops_nothing() -> None:
    clock = streaming(1, 2)
    clock.watch.fails("it answers every call too late")
    clock.run(60.0)
    clock.now_s += 3600.0
    clock.run(1.0)
    assert all(clock.of(name)[0] is NodeState.SERVING for name in clock.nodes())
    assert clock.registry.old_data(clock.now_s) is None
    endpoints = clock.cache.snapshot.get(ENDPOINTS)
    assert endpoints is not None


def test_after_a_reconnect_what_is_gone_goes() -> None:
    clock = listed(1, 2, 3, 4)
    clock.watch.fails("connection refused")
    clock.run(60.0)
    assert clock.nodes() == ["n1", "n2", "n3", "n4"]
    clock.watch.says(clock.now_s, *fleet(1, 2))
    clock.tick()
    assert clock.nodes() == ["n1", "n2"]


def test_a_name_that_moves_takes_its_node_along_with_what_is_open_there() -> None:
    clock = listed(1, 2)
    clock.in_flight["n2"] = 3
    clock.tick()
    clock.watch.says(clock.now_s, *fleet(1), replace(fleet(2)[0], address="192.0.2.22:80"))
    clock.run(0.4)
    latest = clock.pipeline.latest
    assert latest is not None and latest.observed.in_flight.tolist() == [0, 3]
    assert latest.nodes[1].address == "192.0.2.22:80"
    assert clock.of("n2") == (NodeState.SERVING, Reason.NO_TELEMETRY)
