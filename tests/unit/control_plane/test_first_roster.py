"""The first roster waits until agents cease to appear, but not for ever."""

from __future__ import annotations

import math

from isocost.first_roster import QUIET_S, FirstRoster

SETTLE_S = 5.0


def test_a_roster_is_complete_when_no_node_came_for_a_while() -> None:
    first = FirstRoster(SETTLE_S)
    assert not first.complete({"a": 0.0}, 10.0)
    assert not first.complete({"a": 0.1, "b": 0.0}, 10.2)
    assert not first.complete({"a": 0.0, "b": 0.1}, 10.2 + QUIET_S - 0.01)
    assert first.complete({"a": 0.0, "b": 0.1}, 10.2 + QUIET_S)


def test_the_wait_counts_from_the_arrival_and_not_from_the_tick() -> None:
    first = FirstRoster(SETTLE_S)
    assert not first.complete({"a": 0.19}, 10.0)
    assert first.complete({"a": 0.0}, 10.0 - 0.19 + QUIET_S)


def test_nodes_without_an_agent_are_waited_behind_as_well() -> None:
    first = FirstRoster(SETTLE_S)
    assert not first.complete({"f": math.inf}, 10.0)
    assert first.complete({"f": math.inf}, 10.0 + QUIET_S)


def test_a_fleet_that_grows_on_is_published_in_the_end() -> None:
    first = FirstRoster(SETTLE_S)
    now_s, ages = 10.0, {}
    while not first.complete(ages, now_s):
        now_s += 0.2
        ages[f"n{now_s}"] = 0.0
    assert SETTLE_S - 0.3 <= now_s - 10.0 <= SETTLE_S + 0.3


def test_with_no_node_it_is_complete_after_the_settling_time() -> None:
    first = FirstRoster(SETTLE_S)
    assert not first.complete({}, 10.0)
    assert not first.complete({}, 14.9)
    assert first.complete({}, 15.0)


def test_once_complete_it_stays_so() -> None:
    first = FirstRoster(SETTLE_S)
    first.complete({"a": 0.0}, 10.0)
    assert first.complete({"a": 0.0}, 11.0)
    assert first.complete({"a": 0.0, "b": 0.0}, 11.1)
