"""What lists of nodes and probes do to a node, on a fake clock."""

from __future__ import annotations

import pytest

from isocost.weight.told import STREAM_SILENT_S, Told
from tests.unit.weight.fleet_clock import TICK_S, FleetClock, NodeState, Reason

WELL = {"succeeded": 4}
W, SV, SU, D, L = (
    NodeState.WARMING,
    NodeState.SERVING,
    NodeState.SUSPECT,
    NodeState.DRAINING,
    NodeState.LOST,
)


def fleet(*without_agent: str) -> FleetClock:
    made = FleetClock("a", "b", "c", "d")
    made.without_agent |= set(without_agent)
    made.traffic = {item.name: dict(WELL) for item in made.nodes}
    made.tick()
    return made


def returns(clock: FleetClock, name: str) -> int:
    """How often the node came back into service."""
    changes = [change for change in clock.transitions if change.node == name and change.before]
    return sum(
        change.after.state.eligible and not change.before.state.eligible
        for change in changes
        if change.before
    )


@pytest.mark.parametrize("without_agent", [(), ("b",)])
def test_a_node_in_maintenance_drains_also_while_its_agent_speaks(
    without_agent: tuple[str, ...],
) -> None:
    clock = fleet(*without_agent)
    clock.start("b")
    clock.told["b"] = Told.MAINTENANCE
    clock.tick()
    assert clock.of("b") == (D, Reason.MAINTENANCE) and clock.factor("b") == 0.0
    clock.run(2.0)
    assert clock.open_requests("b") == 1
    clock.told.clear()
    clock.tick()
    assert clock.of("b") == (W, Reason.UNDRAINED)


def test_a_drain_by_hand_outlasts_maintenance_and_maintenance_a_drain_by_hand() -> None:
    clock = fleet()
    clock.drains["b"] = clock.now_s
    clock.told["b"] = Told.MAINTENANCE
    clock.tick()
    assert clock.of("b") == (D, Reason.DRAINING)
    clock.drains.clear()
    clock.tick()
    assert clock.of("b") == (D, Reason.MAINTENANCE)
    clock.drains["b"] = clock.now_s
    clock.told.clear()
    clock.run(2.0)
    assert clock.of("b") == (D, Reason.DRAINED)


def test_a_whole_fleet_in_maintenance_is_an_order() -> None:
    clock = fleet()
    clock.told = dict.fromkeys("abcd", Told.MAINTENANCE)
    clock.tick()
    assert clock.count(D) == 4


def test_a_critical_check_takes_a_node_out_at_the_next_tick_also_while_its_agent_speaks() -> None:
    clock = fleet()
    clock.told["b"] = Told.CRITICAL
    clock.tick()
    assert clock.of("b") == (L, Reason.CHECK_CRITICAL) and clock.factor("b") == 0.0


def test_a_warning_halves_the_share_and_spares_who_warms() -> None:
    clock = fleet()
    clock.told["b"] = Told.WARNING
    clock.tick()
    assert clock.of("b") == (SU, Reason.CHECK_WARNING)
    assert clock.factor("b") == clock.settings.suspect_share
    clock.told.clear()
    clock.tick()
    assert clock.of("b") == (SV, Reason.OK)
    clock.restart("c")
    clock.told["c"] = Told.WARNING
    clock.tick()
    assert clock.of("c") == (W, Reason.RESTARTED)


@pytest.mark.parametrize(
    ("told", "reason"),
    [(Told.LATE, Reason.CHECK_LATE), (Told.WITHDRAWN, Reason.WITHDRAWN)],
)
def test_a_living_stream_outvotes_the_list_and_a_silent_one_does_not(
    told: Told, reason: Reason
) -> None:
    clock = fleet()
    clock.told["b"] = told
    clock.run(20.0)
    assert clock.of("b") == (SV, Reason.OK)
    clock.silent_since_s["b"] = clock.now_s
    took_s = clock.seconds_until("b", L, 1.0)
    assert STREAM_SILENT_S < took_s <= STREAM_SILENT_S + 2 * TICK_S
    assert clock.of("b") == (L, reason)
    # Nor does its silence get it another reason later.
    clock.run(5.0)
    assert clock.of("b") == (L, reason)


@pytest.mark.parametrize("told", [Told.LATE, Told.WITHDRAWN])
def test_when_all_agents_stop_and_say_so_the_engines_serve_on_unless_they_refuse(
    told: Told,
) -> None:
    clock = fleet()
    clock.told = dict.fromkeys("ab", told)
    clock.silent_since_s = dict.fromkeys("abcd", clock.now_s)
    clock.run(4.0)
    assert clock.count(SU) == 4 and clock.of("a") == (SU, Reason.COLLECTOR_STALE)
    clock.unreachable.add("a")
    clock.tick()
    assert clock.of("a")[0] is L
    assert clock.of("b") == (SU, Reason.COLLECTOR_STALE)


def test_a_late_node_without_an_agent_is_out_at_once() -> None:
    clock = fleet("b")
    clock.told["b"] = Told.LATE
    clock.tick()
    assert clock.of("b") == (L, Reason.CHECK_LATE)


def test_a_check_that_is_good_again_must_stay_so_for_a_while() -> None:
    clock = fleet()
    clock.told["b"] = Told.CRITICAL
    clock.run(30.0)
    clock.told.clear()
    clock.tick()
    assert clock.of("b") == (L, Reason.CHECK_RECOVERING)
    took_s = clock.seconds_until("b", W, 10.0)
    assert took_s == pytest.approx(clock.settings.eject_base_s, abs=2 * TICK_S)
    assert clock.of("b") == (W, Reason.RETURNED)


@pytest.mark.parametrize(("bad_s", "good_s"), [(1.0, 1.0), (3.0, 4.8), (0.2, 0.2)])
def test_a_flapping_check_takes_a_node_out_once_and_its_open_counts_stay_right(
    bad_s: float, good_s: float
) -> None:
    clock = fleet()
    clock.start("b", 3)
    began_s = clock.now_s
    while clock.now_s - began_s < 60.0:
        clock.told["b"] = Told.CRITICAL
        clock.run(bad_s)
        clock.told.clear()
        clock.run(good_s)
    assert returns(clock, "b") == 0
    assert clock.observed.in_flight[clock.index("b")] == 3
    clock.end("b", succeeded=3)
    clock.run(6.0)
    assert clock.observed.in_flight[clock.index("b")] == 0
    assert returns(clock, "b") == 1


def test_each_return_that_a_check_undoes_doubles_the_time_to_the_next() -> None:
    clock = fleet()
    waits_s = []
    for _ in range(4):
        clock.told["b"] = Told.CRITICAL
        clock.tick()
        clock.told.clear()
        clock.tick()
        waits_s.append(clock.seconds_until("b", W, 400.0))
    assert waits_s == pytest.approx([5.0, 10.0, 20.0, 40.0], abs=2 * TICK_S)


def test_a_ghost_is_out_and_returns_when_it_answers() -> None:
    clock = fleet("b")
    clock.traffic.clear()
    clock.run(6.0)
    clock.unreachable.add("b")
    clock.tick()
    assert clock.of("b") == (L, Reason.UNREACHABLE)
    clock.unreachable.clear()
    clock.tick()
    assert clock.of("b") == (L, Reason.CHECK_RECOVERING)
    clock.seconds_until("b", W, 6.0)


def test_a_node_that_answers_a_gateway_is_no_ghost() -> None:
    clock = fleet("b")
    clock.unreachable.add("b")
    clock.run(5.0)
    assert clock.of("b") == (SV, Reason.NO_TELEMETRY)


def test_when_most_probes_fail_it_is_the_way_from_here_and_nobody_is_out() -> None:
    clock = fleet("a", "b", "c", "d")
    clock.traffic.clear()
    clock.run(6.0)
    clock.unreachable |= {"a", "b"}
    clock.tick()
    assert clock.of("a") == clock.of("b") == (L, Reason.UNREACHABLE)
    clock.unreachable.add("c")
    clock.tick()
    for name in "abc":
        assert clock.of(name) == (SU, Reason.UNREACHABLE)
    clock.unreachable.clear()
    clock.tick()
    assert clock.count(SV) == 4


def test_the_only_node_of_a_fleet_stays_though_nobody_reaches_it() -> None:
    clock = FleetClock("a")
    clock.without_agent.add("a")
    clock.tick()
    clock.unreachable.add("a")
    clock.tick()
    assert clock.of("a") == (SU, Reason.UNREACHABLE)
