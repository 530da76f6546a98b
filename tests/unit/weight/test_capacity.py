"""Capacity is relative speed: steady under noise, quick under change, nothing where none goes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isocost.observe.speeds import Speeds
from isocost.weight.capacity import capacity, relative_speed
from isocost.weight.override import Override
from isocost.weight.requests import MeanRequest
from tests.unit.fleet_builder import node

NODES = [node("a"), node("b"), node("c")]
REQUEST = MeanRequest(prompt_tokens=1000.0, output_tokens=100.0)


def speeds(token_s: list[float], learned: list[bool], output_token_s: float = 1e-3) -> Speeds:
    return Speeds(np.array(token_s), np.full(len(token_s), output_token_s), np.array(learned))


def test_a_node_that_takes_half_the_time_takes_twice_the_requests() -> None:
    both = speeds([1e-4, 2e-4], [True, True], output_token_s=1e-12)
    assert relative_speed(both, REQUEST, np.ones(2)).tolist() == pytest.approx([1.0, 0.5])


def test_long_answers_count_by_their_part_of_shared_steps() -> None:
    both = Speeds(np.full(2, 1e-4), np.array([0.256, 0.512]), np.ones(2, bool))
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
