"""Of each node the values of the last ticks, and a slow mean of those that left."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isocost.weight.node_history import LastTicks, Usual

NONE = math.nan


def test_a_part_of_the_values_of_the_window_reach_what_is_told() -> None:
    last = LastTicks(10)
    last.rearrange(np.array([-1, -1, -1]))
    for tick in range(6):
        last.add(np.array([float(tick), NONE, 7.0 if tick == 5 else NONE]), float(tick))
    # Ticks 1 to 5: four of five values are at least 2.
    value, count = last.reached_by(0.8, 0.0)
    assert value.tolist() == pytest.approx([2.0, NONE, 7.0], nan_ok=True)
    assert count.tolist() == [5, 0, 1]
    assert last.reached_by(0.5, 0.0)[0][0] == 3.0
    assert last.mean(2.0).tolist() == pytest.approx([4.0, NONE, 7.0], nan_ok=True)
    assert last.reached_by(1.0, -1.0)[0][0] == 0.0


def test_the_tick_that_makes_room_is_told() -> None:
    last = LastTicks(2)
    last.rearrange(np.array([-1]))
    left = [
        last.add(np.array([value]), at_s)[0] for at_s, value in enumerate((1.0, NONE, 3.0, 4.0))
    ]
    assert left == pytest.approx([NONE, NONE, 1.0, NONE], nan_ok=True)
    last.forget(np.array([True]))
    assert last.reached_by(0.5, -math.inf)[1].tolist() == [0]


def test_without_a_tick_in_the_window_nothing_is_known() -> None:
    last = LastTicks(2)
    last.rearrange(np.array([-1, -1]))
    for window_s in (-1.0, 5.0):
        value, count = last.reached_by(0.8, window_s)
        assert np.isnan(value).all()
        assert count.tolist() == [0, 0]
        assert np.isnan(last.mean(window_s)).all()
        last.add(np.array([1.0, 2.0]), 1.0)


def test_the_usual_follows_by_half_after_its_half_life() -> None:
    usual = Usual(half_life=100.0, least=1.0)
    usual.rearrange(np.array([-1, -1]))
    for _ in range(2000):
        usual.add(np.array([1.0, NONE]))
    for _ in range(100):
        usual.add(np.array([3.0, NONE]))
    assert usual.mean.tolist() == pytest.approx([2.0, 0.0], rel=1e-3)
    assert usual.distance[1] == usual.weight[1] == 0.0
    assert 0.5 < usual.distance[0] < 1.0


def test_a_value_that_is_far_off_changes_little_and_many_change_all() -> None:
    usual = Usual(half_life=100.0, least=0.1)
    usual.rearrange(np.array([-1]))
    for _ in range(500):
        usual.add(np.array([1.0]))
    usual.add(np.array([1000.0]))
    assert usual.mean[0] < 1.01
    for _ in range(1000):
        usual.add(np.array([1000.0]))
    assert usual.mean[0] > 950.0


def test_rows_follow_their_nodes() -> None:
    last, usual = LastTicks(3), Usual(10.0, 1.0)
    for part in (last, usual):
        part.rearrange(np.full(3, -1))
    usual.add(last.add(np.array([1.0, 2.0, 3.0]), 0.0))
    usual.add(np.array([1.0, 2.0, 3.0]))
    for part in (last, usual):
        part.rearrange(np.array([2, -1, 0]))
    assert last.reached_by(0.5, -1.0)[0].tolist() == pytest.approx([3.0, NONE, 1.0], nan_ok=True)
    assert usual.mean.tolist() == [3.0, 0.0, 1.0]
