"""The gateways tell the ages of their requests; those of others a node whose clock is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState, measured
from isocost.score.open_ages import open_ages
from tests.unit.fleet_builder import node, sample, telemetry_of

#: Ten requests that are three seconds old on average.
OPEN, SEEN_S = 10, 30.0
#: As many again came past the gateways; where nobody tells their ages they are as old.
ALL = 20.0
GUESSED_S = 60.0


def age_sum(
    age: Signal,
    running: float | Signal = ALL,
    believed: bool = True,
    sample_age_s: float = 0.0,
    seen: tuple[int, float] = (OPEN, SEEN_S),
) -> float:
    """Of one node, beside another with requests of two seconds."""
    nodes = [node("a"), node("b")]
    told = replace(sample(nodes[0], running=running), kv_cache_age_s=age)
    telemetry = telemetry_of(nodes, [told, None], [sample_age_s, 0.0])
    in_flight, seen_s = np.array([seen[0], 10]), np.array([seen[1], 20.0])
    return float(open_ages(telemetry, np.array([believed, True]), in_flight, seen_s)[0])


def test_of_requests_that_came_past_the_gateways_the_node_tells_the_age() -> None:
    assert age_sum(measured(10.0)) == 200.0
    assert age_sum(measured(10.0), seen=(0, 0.0)) == 200.0


@pytest.mark.parametrize("running", [0.0, 8.0, 10.0, 14.5])
def test_without_such_requests_its_word_adds_nothing(running: float) -> None:
    for age_s in (0.0, 10.0, 1e6):
        assert age_sum(measured(age_s), running) == SEEN_S


def test_it_never_counts_for_less_than_what_is_seen() -> None:
    assert age_sum(measured(0.0)) == SEEN_S


def test_without_its_word_they_are_as_old_as_those_that_are_seen() -> None:
    assert age_sum(measured(10.0), believed=False) == GUESSED_S
    assert age_sum(measured(3601.0)) == GUESSED_S
    assert age_sum(ABSENT) == GUESSED_S
    assert age_sum(UNSUPPORTED) == GUESSED_S
    assert age_sum(Signal(SignalState.STALE, 10.0, 2.0)) == GUESSED_S


def test_or_as_the_fleets_where_none_is_seen() -> None:
    assert age_sum(ABSENT, seen=(0, 0.0)) == 40.0


def test_an_engine_that_does_not_tell_what_runs_has_what_is_seen() -> None:
    assert age_sum(measured(10.0), running=ABSENT) == SEEN_S
    assert age_sum(measured(10.0), sample_age_s=2.0) == SEEN_S
