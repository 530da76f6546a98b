"""Summaries against numpy."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.bench.statistics import Summary, distribution, percentile, summarise

values_of_any_size = st.lists(st.floats(0, 1e6), max_size=500)


def test_a_summary_agrees_with_numpy() -> None:
    values = [random.Random(7).lognormvariate(3, 1) for _ in range(1000)]
    summary = summarise(values)
    assert summary.count == 1000
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.stdev == pytest.approx(np.std(values))
    for name, percent in (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99), ("max", 100)):
        assert getattr(summary, name) == pytest.approx(np.percentile(values, percent))


def test_one_value_is_every_percentile() -> None:
    assert summarise([4.0]) == Summary(1, 4.0, 0.0, 4.0, 4.0, 4.0, 4.0, 4.0)


def test_nothing_is_counted_as_nothing_and_has_no_figures() -> None:
    assert summarise([]) == Summary(0, None, None, None, None, None, None, None)
    assert percentile([], 0.5) is None
    assert distribution([], 10) == ()


@settings(deadline=None)
@given(values_of_any_size.filter(bool))
def test_percentiles_rise_and_stay_among_the_values(values: list[float]) -> None:
    summary = summarise(values)
    figures = [summary.p50, summary.p90, summary.p95, summary.p99, summary.max]
    assert all(figure is not None for figure in figures)
    known = [figure for figure in figures if figure is not None]
    assert known == sorted(known)
    assert min(values) <= known[0] and known[-1] == max(values)


@settings(deadline=None)
@given(values_of_any_size.filter(bool), st.integers(1, 50))
def test_a_distribution_rises_to_one_and_tells_the_truth_at_every_point(
    values: list[float], points: int
) -> None:
    curve = distribution(values, points)
    assert len(curve) == min(len(values), points)
    assert list(curve) == sorted(curve)
    assert curve[-1] == (max(values), 1.0)
    for value, fraction in curve:
        below, at_most = (sum(v < value for v in values), sum(v <= value for v in values))
        assert below < fraction * len(values) + 1e-9 and fraction * len(values) <= at_most + 1e-9
