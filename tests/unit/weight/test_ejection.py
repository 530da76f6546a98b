"""Ejections get longer, are forgotten, and end in a trial that costs few requests."""

from __future__ import annotations

import pytest

from isocost.config import StateSettings
from isocost.weight.ejection import (
    NONE,
    Served,
    Trial,
    ejected,
    trial_failed,
    trial_open,
    trial_passed,
    trial_share,
)

S = StateSettings()


def test_each_ejection_is_twice_as_long_as_the_one_before_up_to_the_limit() -> None:
    past, now_s, lengths = NONE, 0.0, []
    for _ in range(8):
        past = ejected(past, now_s, S)
        lengths.append(past.until_s - now_s)
        now_s = past.until_s + 1.0
    assert lengths == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def test_ten_thousand_ejections_are_no_overflow() -> None:
    past = NONE
    for number in range(10_000):
        past = ejected(past, float(number), S)
    assert past.until_s == 9999 + S.eject_max_s


def test_ejections_long_ago_are_forgotten() -> None:
    past = ejected(ejected(NONE, 0.0, S), 10.0, S)
    assert past.count == 2
    assert ejected(past, past.until_s + S.eject_forget_s + 1, S).count == 1
    assert ejected(past, past.until_s + S.eject_forget_s - 1, S).count == 3


TRIAL = Trial(100.0, Served(1000, 600, 400))


def served(started: int, good: int = 0, failed: int = 0) -> Served:
    return Served(1000 + started, 600 + good, 400 + failed)


def test_what_was_served_before_the_trial_does_not_count() -> None:
    assert not trial_failed(TRIAL, served(0))
    assert not trial_passed(TRIAL, served(2, good=2), 101.0, S)
    assert trial_passed(TRIAL, served(3, good=3), 101.0, S)


def test_one_failure_fails_a_trial_however_many_were_good() -> None:
    assert trial_failed(TRIAL, served(9, good=8, failed=1))
    assert not trial_passed(TRIAL, served(9, good=8, failed=1), 101.0, S)


def test_a_trial_stops_after_its_few_requests_until_their_outcome_is_known() -> None:
    assert trial_open(TRIAL, served(4), 101.0, S)
    assert not trial_open(TRIAL, served(5), 101.0, S)
    assert not trial_open(TRIAL, served(5), 109.9, S)
    assert trial_open(TRIAL, served(5), 110.1, S)
    assert not trial_open(TRIAL, served(10), 110.1, S)


@pytest.mark.parametrize("started_per_s", [0.0, 1.0, 100.0, 10_000.0])
def test_a_trial_gets_no_more_than_its_requests_in_a_second(started_per_s: float) -> None:
    share = trial_share(started_per_s, S)
    assert 0 < share <= S.trial_share
    assert share * started_per_s <= S.trial_requests
