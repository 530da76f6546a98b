"""What the gateways saw, as a verdict and as a part of the share."""

from __future__ import annotations

import pytest

from isocost.config import StateSettings
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.fleet import FleetObserver
from isocost.weight.evidence import Evidence, evidence

S = StateSettings()


def seen(now_s: float = 1.0, **outcomes: int) -> Evidence:
    """One node's answers, all at the time 0."""
    observer = FleetObserver(10.0, S.window_s)
    observer.apply(Batch("edge", 1, 1, (NodeObservation(7, **outcomes),)), 0.0)
    return evidence(observer.view([7], now_s), now_s, S)


@pytest.mark.parametrize(
    ("outcomes", "poor", "bad", "share"),
    [
        ({}, False, False, 1.0),
        ({"succeeded": 100}, False, False, 1.0),
        ({"server_errors": 1}, False, False, 0.8),
        ({"server_errors": 2}, False, False, 0.6),
        ({"server_errors": 3}, True, False, 0.4),
        ({"server_errors": 5}, True, True, 0.05),
        ({"resets": 5}, True, True, 0.05),
        ({"failed_attempts": 5}, True, True, 0.05),
        ({"resets": 2, "server_errors": 2, "failed_attempts": 1}, True, True, 0.05),
        ({"succeeded": 5, "resets": 5}, True, True, 0.5),
        ({"succeeded": 6, "resets": 5}, True, False, 6 / 11),
        ({"client_errors": 6, "resets": 5}, True, False, 6 / 11),
        ({"succeeded": 13, "resets": 3}, False, False, 13 / 16),
        ({"client_aborts": 100}, False, False, 1.0),
        ({"unknown_attempts": 100}, False, False, 1.0),
        ({"client_errors": 100}, False, False, 1.0),
        ({"rate_limited": 1}, False, False, 0.8),
        ({"rate_limited": 50, "succeeded": 50}, False, False, 0.5),
        ({"rate_limited": 100}, False, False, 0.05),
        ({"rate_limited": 50, "succeeded": 25, "resets": 25}, True, True, 0.25),
    ],
)
def test_verdict_and_share(outcomes: dict[str, int], poor: bool, bad: bool, share: float) -> None:
    found = seen(**outcomes)
    assert (bool(found.poor[0]), bool(found.bad[0])) == (poor, bad)
    assert found.share[0] == pytest.approx(share)


def test_answers_are_forgotten_after_the_window() -> None:
    assert seen(now_s=4.0, resets=20).bad[0]
    after = seen(now_s=5.1, resets=20)
    assert not after.poor[0]
    assert after.share[0] == 1.0


def failing_slowly(good_between: int, count: int = 5, every_s: float = 4.0) -> Evidence:
    """A failure every few seconds, and good answers between them."""
    observer = FleetObserver(10.0, S.window_s)
    for number in range(count):
        now_s = number * every_s
        failure = NodeObservation(7, resets=1)
        observer.apply(Batch("edge", 1, 2 * number, (failure,)), now_s)
        if good_between:
            good = NodeObservation(7, succeeded=good_between)
            observer.apply(Batch("edge", 1, 2 * number + 1, (good,)), now_s + 1.0)
    return evidence(observer.view([7], now_s), now_s, S)


def test_failures_in_a_row_count_however_seldom_they_come() -> None:
    assert failing_slowly(good_between=0).bad[0]
    assert not failing_slowly(good_between=0, count=4).bad[0]
    assert failing_slowly(good_between=0, count=3).poor[0]


def test_a_good_answer_ends_the_row() -> None:
    assert not failing_slowly(good_between=1).poor[0]


def test_a_row_of_long_ago_is_no_evidence() -> None:
    observer = FleetObserver(10.0, S.window_s)
    observer.apply(Batch("edge", 1, 1, (NodeObservation(7, resets=20),)), 0.0)
    assert not evidence(observer.view([7], 6.0), 6.0, S).poor[0]


def test_a_short_burst_of_failures_under_full_traffic_is_not_enough() -> None:
    observer = FleetObserver(10.0, S.window_s)
    observer.apply(Batch("edge", 1, 1, (NodeObservation(7, succeeded=200),)), 0.0)
    observer.apply(Batch("edge", 1, 2, (NodeObservation(7, resets=6),)), 1.0)
    found = evidence(observer.view([7], 1.0), 1.0, S)
    assert not found.poor[0]
    assert found.share[0] == pytest.approx(200 / 206)
