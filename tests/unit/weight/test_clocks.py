"""A clock that is off is not believed; one late report is no clock."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isocost.weight.clocks import CLOCK_SKEW_S, ClockWatch


def watch(*offsets: float) -> tuple[list[bool], list[bool]]:
    """Of one node: tick by tick, is it believed, and is it known to be off?"""
    clocks = ClockWatch()
    clocks.rearrange(np.array([-1]))
    told = [clocks.update(np.array([offset])) for offset in offsets]
    return [bool(believed[0]) for believed, _ in told], [bool(off[0]) for _, off in told]


def test_up_to_the_limit_a_clock_is_believed() -> None:
    assert watch(0.0, CLOCK_SKEW_S, -CLOCK_SKEW_S) == ([True] * 3, [False] * 3)


@pytest.mark.parametrize("offset_s", [0.11, -0.11, 5.0, -5.0, math.inf])
def test_beyond_it_not_at_once_and_it_is_told_after_three_ticks(offset_s: float) -> None:
    assert watch(*[offset_s] * 4) == ([False] * 4, [False, False, True, True])


def test_one_late_report_is_not_believed_and_says_nothing_of_the_clock() -> None:
    believed, off = watch(0.0, -0.4, 0.0, -0.4, 0.0)
    assert believed == [True, False, True, False, True]
    assert not any(off)


def test_a_clock_that_was_off_is_believed_again_after_three_good_ticks() -> None:
    believed, off = watch(5.0, 5.0, 5.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0)
    assert off == [False, False, True, True, True, True, True, True, False]
    assert believed == [False] * 8 + [True]


def test_an_unknown_clock_is_not_believed_and_not_called_wrong() -> None:
    assert watch(*[math.nan] * 5) == ([False] * 5, [False] * 5)


def test_a_new_roster_keeps_what_is_known_of_those_that_stay() -> None:
    clocks = ClockWatch()
    clocks.rearrange(np.array([-1, -1]))
    for _ in range(3):
        clocks.update(np.array([5.0, 0.0]))
    clocks.rearrange(np.array([-1, 0]))
    assert clocks.update(np.array([0.0, 0.0]))[1].tolist() == [False, True]
