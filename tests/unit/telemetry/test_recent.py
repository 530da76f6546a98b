"""Latencies of the last half minute, and of no other time."""

from __future__ import annotations

import math

import pytest

from isocost.model import ABSENT
from isocost.telemetry.engines.histogram import Histogram, Latencies
from isocost.telemetry.engines.recent import STEP_S, WINDOW_S, Quantiles, RecentLatencies


def snapshot(fast: int, slow: int) -> Latencies:
    """Requests within 0.1 s, and between 1 and 2 s."""
    counts = (float(fast), float(fast), float(fast + slow), float(fast + slow))
    return Latencies(first_token_s=Histogram((0.1, 1.0, 2.0, math.inf), counts))


def test_nothing_is_known_of_one_snapshot() -> None:
    window = RecentLatencies()
    window.take(snapshot(1000, 0), 0.0)
    assert window.quantiles(0.0) == {
        name: Quantiles() for name in ("first_token", "per_token", "queue", "request")
    }


def test_what_came_before_the_window_does_not_count() -> None:
    window = RecentLatencies()
    for step in range(20):
        # 1,000 fast requests a step at first, then one slow one: a lifetime's median stays fast.
        window.take(snapshot(1000 * min(step, 9), max(step - 9, 0)), step * STEP_S)
    told = window.quantiles(19 * STEP_S)["first_token"]
    assert told.p50.value == pytest.approx(1.5)
    assert told.p99.value == pytest.approx(1.99)


def test_the_window_keeps_half_a_minute() -> None:
    window = RecentLatencies()
    for step in range(8):
        window.take(snapshot(100 if step >= 2 else 0, 0), step * STEP_S)
    # The 100 came between 5 and 10 s, which is within the window that began at 5 s.
    assert window.quantiles(35.0)["first_token"].p50.known
    window.take(snapshot(100, 0), WINDOW_S + 10.0)
    assert window.quantiles(40.0)["first_token"].p50 == ABSENT


def test_a_snapshot_is_due_every_few_seconds_and_an_old_one_tells_nothing() -> None:
    window = RecentLatencies()
    assert window.due(0.0)
    window.take(snapshot(0, 0), 0.0)
    assert not window.due(STEP_S - 0.1) and window.due(STEP_S)
    window.take(snapshot(5, 5), STEP_S)
    assert window.quantiles(3 * STEP_S)["first_token"].p50.known
    assert window.quantiles(3 * STEP_S + 0.1)["first_token"].p50 == ABSENT


def test_another_engine_begins_anew() -> None:
    window = RecentLatencies()
    window.take(snapshot(5, 0), 0.0)
    window.forget()
    window.take(snapshot(500, 0), STEP_S)
    assert window.quantiles(STEP_S)["first_token"].p50 == ABSENT
