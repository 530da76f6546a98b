"""The cap per model and the least that stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from isocost.config import StateSettings
from isocost.model import Model, Node
from isocost.weight.limits import Groups, Limits, collector_is_stale, host_numbers, worst_first
from tests.unit.fleet_builder import node

S = StateSettings()


def serving(*models: str) -> Node:
    return replace(node(), models=tuple(Model(name) for name in models))


def flags(count: int, *true: int) -> np.ndarray:
    return np.isin(np.arange(count), true)


def limits(
    nodes: list[Node],
    out: tuple[int, ...] = (),
    gone: tuple[int, ...] = (),
    held: tuple[int, ...] = (),
    mute: tuple[int, ...] = (),
    settings: StateSettings = S,
) -> Limits:
    count = len(nodes)
    return Limits(
        Groups(nodes),
        flags(count, *out),
        ~flags(count, *gone),
        flags(count, *held),
        flags(count, *mute),
        settings,
    )


def put_out(room: Limits, count: int) -> list[int]:
    return [index for index in range(count) if room.put_out(index)]


@pytest.mark.parametrize(("count", "most"), [(1, 0), (2, 1), (3, 1), (4, 2), (9, 4), (10, 5)])
def test_at_most_half_of_a_model_is_put_aside(count: int, most: int) -> None:
    assert len(put_out(limits([serving("m")] * count), count)) == most


def test_who_is_out_already_counts() -> None:
    room = limits([serving("m")] * 4, out=(0,))
    assert [room.put_out(index) for index in (1, 2, 3)] == [True, False, False]


def test_the_cap_is_of_those_that_are_judged() -> None:
    room = limits([serving("m")] * 6, gone=(0, 1))
    assert [room.put_out(index) for index in (2, 3, 4, 5)] == [True, True, False, False]


def test_every_model_of_a_node_must_have_room() -> None:
    nodes = [serving("a"), serving("a"), serving("a", "b"), serving("b")]
    room = limits(nodes, out=(3,))
    assert not room.put_out(2)
    assert room.put_out(0)


def test_a_node_with_a_model_of_its_own_stays() -> None:
    assert put_out(limits([serving("a"), serving("b")]), 2) == []


def test_nodes_without_models_are_one_group() -> None:
    assert len(put_out(limits([serving()] * 4), 4)) == 2


def test_so_many_stay_in_as_configured_and_nodes_held_by_hand_are_none_of_them() -> None:
    three = S.model_copy(update={"min_eligible": 3})
    assert len(put_out(limits([serving("m")] * 4, settings=three), 4)) == 1
    assert put_out(limits([serving("m")] * 4, held=(0,), settings=three), 4) == [0]


def test_what_is_too_much_returns_one_by_one() -> None:
    room = limits([serving("m")] * 6, out=(0, 1, 2), gone=(3, 4, 5))
    assert [room.must_return(index) for index in (0, 1, 2)] == [True, True, False]


def test_an_ejected_node_returns_when_it_is_the_last() -> None:
    room = limits([serving("m")] * 2, out=(0,), gone=(1,))
    assert room.must_return(0)


def test_a_cap_of_zero_ejects_nobody() -> None:
    never = S.model_copy(update={"max_out_fraction": 0.0})
    assert put_out(limits([serving("m")] * 10, settings=never), 10) == []


@pytest.mark.parametrize(
    ("watched", "quiet", "stale"),
    [(1, 1, True), (2, 1, False), (2, 2, True), (8, 4, False), (8, 5, True), (8, 0, False)],
)
def test_more_silent_agents_than_the_cap_is_the_collectors_fault(
    watched: int, quiet: int, stale: bool
) -> None:
    among = np.ones(watched, dtype=np.bool_)
    assert collector_is_stale(flags(watched, *range(quiet)), among, np.arange(watched), S) is stale


def test_no_agents_are_no_fault() -> None:
    nobody = np.zeros(3, dtype=np.bool_)
    assert not collector_is_stale(nobody, nobody, np.arange(3), S)


def test_who_gets_nowhere_is_worse_than_who_fails() -> None:
    assert worst_first([0, 1, 2, 3], flags(4, 2), [0.6, 0.9, 0.0, 0.9]) == [2, 1, 3, 0]


@pytest.mark.parametrize(
    ("silent", "stale"),
    [("a", False), ("b", False), ("c", False), ("ab", True), ("bc", True), ("abc", True)],
)
def test_agents_are_counted_and_not_their_nodes(silent: str, stale: bool) -> None:
    nodes = [replace(node(), host=host) for host in "a" * 10 + "b" * 4 + "c" * 2]
    quiet = np.array([item.host in silent for item in nodes])
    watched = np.ones(len(nodes), dtype=np.bool_)
    assert collector_is_stale(quiet, watched, host_numbers(nodes), S) is stale


def test_an_agent_that_speaks_for_one_of_its_nodes_is_not_silent() -> None:
    hosts = np.array([0, 0, 1, 1])
    assert not collector_is_stale(flags(4, 0, 2), np.ones(4, dtype=np.bool_), hosts, S)


def test_the_cap_is_not_for_nodes_whose_agent_is_silent_too_but_some_stay() -> None:
    room = limits([serving("m")] * 6, mute=(0, 1, 2, 3))
    assert put_out(room, 6) == [0, 1, 2, 3, 4]
    assert put_out(limits([serving("m")] * 4, mute=(0, 1, 2, 3)), 4) == [0, 1, 2]


def test_mute_nodes_that_are_out_take_no_room_and_give_none() -> None:
    room = limits([serving("m")] * 6, out=(0, 1, 2, 3), mute=(0, 1, 2, 3))
    assert not room.exceeded()
    assert not room.must_return(0)
    assert limits([serving("m")] * 6, out=(0, 1, 2, 3)).exceeded()
