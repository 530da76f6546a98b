"""A node's own word on its requests' ages counts where its clock is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState, measured
from isocost.score.open_ages import open_ages
from tests.unit.fleet_builder import node, sample, telemetry_of

SEEN_S = 30.0


def age_sum(
    age: Signal, running: float | Signal = 4.0, believed: bool = True, sample_age_s: float = 0.0
) -> float:
    one = node()
    told = replace(sample(one, running=running), kv_cache_age_s=age)
    telemetry = telemetry_of([one], [told], [sample_age_s])
    ages = open_ages(telemetry, np.array([believed]), np.array([SEEN_S]))
    assert ages.told.known[0] == (ages.sum_s[0] != SEEN_S)
    return float(ages.sum_s[0])


def test_the_mean_age_counts_for_each_running_request() -> None:
    assert age_sum(measured(10.0)) == 40.0
    assert age_sum(measured(10.0), running=0.0) == 0.0


def test_by_a_wrong_clock_the_gateways_count() -> None:
    assert age_sum(measured(10.0), believed=False) == SEEN_S


def test_what_is_unknown_or_old_leaves_it_to_the_gateways() -> None:
    assert age_sum(ABSENT) == SEEN_S
    assert age_sum(UNSUPPORTED) == SEEN_S
    assert age_sum(Signal(SignalState.STALE, 10.0, 2.0)) == SEEN_S
    assert age_sum(measured(10.0), sample_age_s=2.0) == SEEN_S
    assert age_sum(measured(10.0), running=ABSENT) == SEEN_S
