"""A node whose latency rises without load keeps a part of its share, for as long as that is so."""

from __future__ import annotations

import pytest

from isocost.config import StateSettings
from tests.unit.weight.fleet_clock import FleetClock, NodeState, Reason

S = StateSettings()
SV, SU, DR, W = NodeState.SERVING, NodeState.SUSPECT, NodeState.DRAINING, NodeState.WARMING
LATE_S = 0.1


def fleet(*names: str) -> FleetClock:
    """Nodes that stream, for long enough that their usual times are known."""
    clock = FleetClock(*(names or "abcd"))
    clock.traffic = {item.name: {"succeeded": 2} for item in clock.nodes}
    clock.late_s = dict.fromkeys(clock.traffic, 0.0)
    clock.run(15.0)
    clock.transitions.clear()
    return clock


@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_a_late_node_keeps_a_part_of_its_share_and_gets_it_back(names: str) -> None:
    clock = fleet(*names)
    clock.late_s["b"] = LATE_S
    assert clock.seconds_until("b", SU, within_s=2.5) > 1.0
    assert clock.of("b") == (SU, Reason.JITTER)
    assert [clock.factor(name) for name in names[:2]] == [1.0, S.jitter_share]
    clock.run(60.0)
    assert clock.of("b") == (SU, Reason.JITTER)
    clock.late_s["b"] = 0.0
    clock.seconds_until("b", SV, within_s=5.0)
    assert clock.factor("b") == 1.0
    clock.run(60.0)
    assert clock.path("b") == [(SU, Reason.JITTER), (SV, Reason.OK)]
    assert not any(clock.path(name) for name in names if name != "b")


def test_failures_and_orders_count_for_a_late_node_as_for_any_other() -> None:
    clock = fleet()
    clock.late_s["b"] = LATE_S
    clock.seconds_until("b", SU, within_s=2.5)
    clock.drains["b"] = clock.now_s
    clock.tick()
    assert clock.of("b")[0] is DR
    clock.drains.clear()
    clock.tick()
    assert clock.of("b")[0] in (SU, SV, W)
    clock.traffic["b"] = {"server_errors": 2}
    clock.seconds_until("b", NodeState.EJECTED, within_s=10.0)


def test_a_restarted_node_is_judged_anew() -> None:
    clock = fleet()
    clock.late_s["b"] = LATE_S
    clock.seconds_until("b", SU, within_s=2.5)
    clock.restart("b")
    clock.run(60.0)
    assert clock.of("b") == (SV, Reason.OK)


def test_answers_in_one_piece_say_nothing() -> None:
    clock = FleetClock(*"abcd")
    clock.traffic = {item.name: {"succeeded": 2} for item in clock.nodes}
    clock.run(30.0)
    assert not any(clock.scored.jitter.late)
    assert all(clock.of(name) == (SV, Reason.OK) for name in "abcd")
