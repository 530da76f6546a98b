"""The latency of a node is the mean of its last ten seconds; no observation is no number."""

import pytest

from isocost.model import ABSENT
from isocost.observe.latency import LatencyWindow


def test_the_mean_is_over_the_window_and_weighs_every_request() -> None:
    window = LatencyWindow(10.0)
    window.add(1, sum_ms=30.0, count=3, now_s=100.0)
    window.add(1, sum_ms=50.0, count=1, now_s=105.0)
    assert window.mean(1, 105.0).value == pytest.approx(20.0)


def test_what_is_older_than_the_window_is_forgotten() -> None:
    window = LatencyWindow(10.0)
    window.add(1, 30.0, 3, 100.0)
    window.add(1, 50.0, 1, 108.0)
    assert window.mean(1, 111.5).value == pytest.approx(50.0)
    assert window.mean(1, 130.0) == ABSENT


def test_a_bucket_is_not_mistaken_for_one_a_whole_window_later() -> None:
    window = LatencyWindow(10.0)
    window.add(1, 1000.0, 1, 100.0)
    window.add(1, 10.0, 1, 110.0)
    assert window.mean(1, 110.0).value == pytest.approx(10.0)


def test_no_observation_is_absent_and_never_zero() -> None:
    window = LatencyWindow(10.0)
    window.add(1, 0.0, 0, 100.0)
    assert window.mean(1, 100.0) == ABSENT
    assert window.mean(2, 100.0) == ABSENT


def test_nodes_that_left_are_forgotten() -> None:
    window = LatencyWindow(10.0)
    window.add(1, 10.0, 1, 100.0)
    window.add(2, 20.0, 1, 100.0)
    window.keep([2])
    assert window.mean(1, 100.0) == ABSENT
    assert window.mean(2, 100.0).value == 20.0
