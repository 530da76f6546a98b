"""Which GPUs may work as one: never two without NVLinks between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.telemetry.topology.groups import (
    components,
    farthest,
    instead_of,
    not_linked,
    nvlink_groups,
    propose,
    weak_pairs,
)
from isocost.telemetry.topology.machine import Topology, pairs
from isocost.telemetry.topology.matrix import read_matrix
from tests.unit.telemetry.topologies import joined, machine, text

#: DGX-1 with V100: two fully connected halves, and each GPU has NVLinks to its twin in the other.
CUBE = machine(8, {**joined((0, 1, 2, 3), (4, 5, 6, 7)), **{(i, i + 4): 12 for i in range(4)}})
TWO_OF_FOUR = machine(8, joined((0, 1, 2, 3), (4, 5, 6, 7)))


def groups(topology: Topology, min_nvlinks: int = 1) -> list[tuple[int, ...]]:
    return [group.gpus for group in nvlink_groups(topology, min_nvlinks)]


def test_eight_gpus_that_are_two_groups_of_four() -> None:
    assert groups(TWO_OF_FOUR) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert propose(TWO_OF_FOUR, 8).units == ()
    assert propose(TWO_OF_FOUR, 4).units == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert instead_of(TWO_OF_FOUR, 8) == propose(TWO_OF_FOUR, 4)
    assert not_linked(TWO_OF_FOUR) == tuple(
        (one, other) for one in range(4) for other in range(4, 8)
    )


def test_reaching_each_other_through_a_third_is_not_enough() -> None:
    assert components(CUBE) == (tuple(range(8)),)
    assert groups(CUBE) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert propose(CUBE, 8).units == () and instead_of(CUBE, 8).degree == 4


@pytest.mark.parametrize(
    ("file", "degree", "units", "unused"),
    [
        ("h200-8x-nv18-10nic.txt", 8, ((0, 1, 2, 3, 4, 5, 6, 7),), ()),
        ("h200-8x-nv18-10nic.txt", 3, ((0, 1, 2), (4, 5, 6)), (3, 7)),
        ("a800-8x-nv8-4nic.txt", 4, ((0, 1, 2, 3), (4, 5, 6, 7)), ()),
        ("a100pcie-8x-nv12-pairs-2x4.txt", 2, ((0, 1), (2, 3), (4, 5), (6, 7)), ()),
        ("a100pcie-8x-nv12-pairs-2x4.txt", 4, (), tuple(range(8))),
        ("a6000-3x-nv4-pair.txt", 2, ((0, 1),), (2,)),
        ("pcie-8x-pix-phb-sys-2x4.txt", 2, (), tuple(range(8))),
        ("h100-80gb-hbm3-1x.txt", 1, ((0,),), ()),
    ],
)
def test_units_of_recorded_machines(
    file: str, degree: int, units: tuple[tuple[int, ...], ...], unused: tuple[int, ...]
) -> None:
    proposal = propose(read_matrix(text(file)), degree)
    assert (proposal.units, proposal.unused) == (units, unused)


@pytest.mark.parametrize(("degree", "instead"), [(2, 1), (3, 2), (4, 2), (5, 4), (8, 4), (9, 4)])
def test_the_degree_instead_is_a_power_of_two(degree: int, instead: int) -> None:
    assert instead_of(TWO_OF_FOUR, degree).degree == instead


def test_units_stay_within_a_numa_node_where_they_can() -> None:
    six = machine(6, joined((0, 1, 2, 3, 4, 5)), per_numa_node=3)
    assert propose(six, 2).units == ((0, 1), (2, 5), (3, 4))


def test_too_few_nvlinks_join_nobody() -> None:
    degraded = machine(4, {**joined((0, 1, 2, 3)), (1, 2): 10})
    assert groups(degraded) == [(0, 1, 2, 3)] and nvlink_groups(degraded)[0].nvlinks == 10
    assert groups(degraded, 12) == [(0, 1, 3), (2,)]
    assert weak_pairs(degraded, 12) == ((1, 2),)
    assert weak_pairs(TWO_OF_FOUR, 12) == ()


def test_of_equal_groups_the_one_with_more_nvlinks_stays() -> None:
    line = machine(3, {(0, 1): 2, (1, 2): 4})
    assert groups(line) == [(0,), (1, 2)]


def test_the_farthest_way_between_groups() -> None:
    topology = read_matrix(text("a100pcie-8x-nv12-pairs-2x4.txt"))
    assert str(farthest(topology, (0, 1), (2, 3))) == "NODE"
    assert str(farthest(topology, (0, 1), (3, 4))) == "SYS"


def test_some_gpus_only() -> None:
    some = TWO_OF_FOUR.only([1, 2, 5])
    assert groups(some) == [(1, 2), (5,)] and propose(some, 2).unused == (5,)


def test_the_search_ends_for_the_worst_machine() -> None:
    """Every two are joined but within a triple: 3^(32/3) largest groups, some seconds."""
    worst = machine(32, {pair: 1 for pair in pairs(range(32)) if pair[0] // 3 != pair[1] // 3})
    assert len(groups(worst)[0]) == 11


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    count = draw(st.integers(1, 9))
    counts = {pair: draw(st.integers(0, 3)) for pair in pairs(range(count))}
    numa = draw(st.integers(1, 4))
    return machine(count, {pair: number for pair, number in counts.items() if number}, numa)


@given(machines(), st.integers(1, 9), st.integers(1, 3))
def test_no_unit_ever_has_two_gpus_without_nvlinks(
    topology: Topology, degree: int, least: int
) -> None:
    found = nvlink_groups(topology, least)
    assert sorted(index for group in found for index in group.gpus) == list(topology.indices)
    for group in found:
        assert all(topology.link(*pair).nvlinks >= least for pair in pairs(group.gpus))
    proposal = propose(topology, degree, least)
    used = [index for unit in proposal.units for index in unit]
    assert sorted([*used, *proposal.unused]) == list(topology.indices)
    for unit in proposal.units:
        assert len(unit) == degree
        assert any(set(unit) <= set(group.gpus) for group in found)
    # A no is true: the largest set of GPUs that are all joined is one of the groups.
    assert bool(proposal.units) == (degree <= max(len(group.gpus) for group in found))
    instead = instead_of(topology, degree, least)
    assert instead.units and instead.degree <= degree
