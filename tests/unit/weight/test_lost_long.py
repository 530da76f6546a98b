"""Agents that have been silent for long are no news: they neither make others' silence look like a
broken way, nor come back with it.
"""

from __future__ import annotations

from tests.unit.weight.fleet_clock import FleetClock, NodeState, Reason

LOST = (NodeState.LOST, Reason.AGENT_SILENT)
STALE = (NodeState.SUSPECT, Reason.COLLECTOR_STALE)
#: Longer than any silence that is judged together with another.
LONG_S = 60.0


def silence(clock: FleetClock, names: str) -> None:
    clock.silent_since_s |= dict.fromkeys(names, clock.now_s)


def standings(clock: FleetClock, names: str) -> list[tuple[NodeState, Reason]]:
    return [clock.of(name) for name in names]


def test_one_more_silent_agent_beside_those_that_were_lost_long_ago_is_lost_too() -> None:
    """Three of five are silent then, but not together."""
    clock = FleetClock(*"abcde")
    clock.run(3.0)
    silence(clock, "ab")
    clock.run(LONG_S)
    assert standings(clock, "ab") == [LOST] * 2
    silence(clock, "c")
    clock.run(10.0)
    assert clock.of("c") == LOST


def test_a_node_that_was_lost_long_ago_stays_lost_when_most_others_fall_silent() -> None:
    clock = FleetClock(*"abcd")
    clock.run(3.0)
    silence(clock, "a")
    clock.run(LONG_S)
    silence(clock, "bcd")
    clock.run(30.0)
    assert standings(clock, "abcd") == [LOST, *[STALE] * 3]


def test_a_node_that_was_lost_just_before_most_others_fell_silent_is_one_of_them() -> None:
    """Half of the time that makes an agent silent is more than it was ahead of them."""
    clock = FleetClock(*"abcd")
    clock.run(3.0)
    silence(clock, "a")
    clock.run(1.8)
    silence(clock, "bc")
    clock.seconds_until("a", NodeState.LOST, 3.0)
    clock.run(3.0)
    assert standings(clock, "abc") == [STALE] * 3
