"""Placements of all VMs are merged, the newest counts, and no table carries more than it may."""

from isocost.observe.batch import Placement
from isocost.observe.placements import MOST_BLOCKS, Placements


def test_what_several_batches_brought_is_grouped_by_node_and_taken_once() -> None:
    placements = Placements()
    placements.add((Placement(7, (1, 2)), Placement(8, (3,))))
    placements.add((Placement(7, (4,)),))
    assert placements.take() == {7: [1, 2, 4], 8: [3]}
    assert placements.take() == {}


def test_the_newest_node_of_a_beginning_counts() -> None:
    placements = Placements()
    placements.add((Placement(7, (1, 2)),))
    placements.add((Placement(8, (1,)),))
    assert placements.take() == {7: [2], 8: [1]}


def test_the_oldest_give_way() -> None:
    placements = Placements()
    placements.add((Placement(7, tuple(range(MOST_BLOCKS))),))
    placements.add((Placement(8, tuple(range(MOST_BLOCKS, MOST_BLOCKS + 100))),))
    taken = placements.take()
    assert len(taken[7]) == MOST_BLOCKS - 100
    assert taken[7][0] == 100
    assert len(taken[8]) == 100


def test_one_batch_with_far_too_many_is_cut() -> None:
    placements = Placements()
    placements.add((Placement(7, tuple(range(3 * MOST_BLOCKS))),))
    assert placements.take() == {7: list(range(2 * MOST_BLOCKS, 3 * MOST_BLOCKS))}
