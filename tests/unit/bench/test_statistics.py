"""Summaries against numpy."""

import random

import numpy as np
import pytest

from isocost.bench.statistics import summarise


def test_a_summary_agrees_with_numpy() -> None:
    values = [random.Random(7).lognormvariate(3, 1) for _ in range(1000)]
    summary = summarise(values)
    assert summary is not None
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.stdev == pytest.approx(np.std(values))
    for name, percent in (("p50", 50), ("p90", 90), ("p95", 95), ("p99", 99), ("max", 100)):
        assert getattr(summary, name) == pytest.approx(np.percentile(values, percent))


def test_one_value_is_every_percentile() -> None:
    summary = summarise([4.0])
    assert summary is not None
    assert (summary.p50, summary.p99, summary.max, summary.stdev) == (4.0, 4.0, 4.0, 0.0)


def test_nothing_has_no_summary() -> None:
    assert summarise([]) is None
