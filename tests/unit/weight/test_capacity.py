"""Capacity is relative speed: steady under noise, quick under change, nothing where none goes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isocost.observe.speeds import Speeds
from isocost.weight.capacity import CapacityDamper, capacity, relative_speed
from isocost.weight.override import Override
from isocost.weight.requests import MeanRequest
from tests.unit.fleet_builder import node

NODES = [node("a"), node("b"), node("c")]
REQUEST = MeanRequest(prompt_tokens=1000.0, output_tokens=100.0)


def speeds(token_s: list[float], learned: list[bool], step_s: float = 1e-5) -> Speeds:
    known = np.array(learned)
    return Speeds(np.array(token_s), known, np.full(len(token_s), step_s), known)


def test_a_node_that_takes_half_the_time_takes_twice_the_requests() -> None:
    found = relative_speed(speeds([1e-4, 2e-4], [True, True], step_s=1e-12), REQUEST, np.ones(2))
    assert found.tolist() == pytest.approx([1.0, 0.5])


def test_long_answers_count_by_what_they_cost_the_others() -> None:
    both = Speeds(np.full(2, 1e-4), np.ones(2, bool), np.array([1e-3, 2e-3]), np.ones(2, bool))
    assert relative_speed(both, REQUEST, np.ones(2))[1] == pytest.approx(0.2 / 0.3)


def test_while_nothing_is_learned_the_configured_capacity_counts() -> None:
    found = relative_speed(speeds([1e-4] * 2, [False, False]), REQUEST, np.array([2.0, 1.0]))
    assert found.tolist() == [1.0, 0.5]


def test_what_is_not_learned_is_scaled_to_what_is() -> None:
    configured = np.array([2.0, 1.0, 2.0])
    found = relative_speed(speeds([2e-4, 9e-4, 1e-9], [True, False, False]), REQUEST, configured)
    assert found.tolist() == pytest.approx([1.0, 0.5, 1.0])


def test_health_and_state_lower_it_and_hand_settings_multiply_or_stop_it() -> None:
    ones = np.ones(3)
    found = capacity(NODES, ones, np.array([1.0, 0.5, 1.0]), np.array([1.0, 1.0, 0.0]), {})
    assert found.tolist() == [1.0, 0.5, 0.0]
    by_hand = {
        "a": Override(weight=0.0),
        "b": Override(weight=0.5),
        "c": Override(entropy=math.inf),
    }
    assert capacity(NODES, ones, ones, ones, by_hand).tolist() == [0.0, 1.0, 0.0]
    by_hand["a"] = Override(weight=1.0)
    assert capacity(NODES, ones, ones, ones, by_hand).tolist() == [1.0, 0.5, 0.0]
    assert capacity(NODES, ones, ones, np.zeros(3), {}).tolist() == [0.0] * 3
    assert capacity([], np.zeros(0), np.zeros(0), np.zeros(0), {}).tolist() == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_a_steady_load_moves_no_share_by_more_than_ten_per_cent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    damper, ids = CapacityDamper(), list(range(8))
    shares = []
    drift = np.zeros(8)
    for tick in range(1000):
        # Estimates wander: what they are now they were nearly a moment ago.
        drift = 0.98 * drift + rng.normal(0.0, 0.015, 8)
        found = damper.update(ids, np.exp(np.clip(drift, -0.24, 0.24)), tick * 0.2)
        shares.append(found / found.sum())
    settled = np.array(shares[100:])
    assert np.abs(settled / settled.mean(axis=0) - 1.0).max() < 0.1


def test_a_node_slowed_threefold_has_its_third_within_two_seconds() -> None:
    damper, ids = CapacityDamper(), list(range(8))
    speed = np.ones(8)
    damper.update(ids, speed, 0.0)
    speed[3] = 1 / 3
    for tick in range(1, 11):
        found = damper.update(ids, speed, tick * 0.2)
    assert found[3] == pytest.approx(1 / 3, rel=0.3)
    assert np.delete(found, 3).min() > 0.99


def test_nodes_that_come_are_taken_as_they_are_and_the_others_keep_their_place() -> None:
    damper = CapacityDamper()
    damper.update([1, 2], np.array([1.0, 0.5]), 0.0)
    found = damper.update([3, 2, 1], np.array([0.25, 0.5, 1.0]), 0.2)
    assert found.tolist() == pytest.approx([0.25, 0.5, 1.0])
    assert damper.update([], np.zeros(0), 0.4).tolist() == []
