"""Sums over a window forget what is older, whoever else was counted meanwhile."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isocost.observe.window import SlidingSums


def window(rows: int = 2) -> SlidingSums:
    made = SlidingSums(10.0, kinds=1)
    made.grow(rows)
    return made


def add(to: SlidingSums, row: int, value: float, now_s: float) -> None:
    to.add(np.array([row]), np.array([[value]]), now_s)


def totals(of: SlidingSums, now_s: float) -> list[float]:
    return of.totals(now_s)[:, 0].tolist()


def test_what_is_older_than_the_window_is_forgotten() -> None:
    sums = window()
    add(sums, 0, 30.0, 100.0)
    add(sums, 0, 50.0, 108.0)
    assert totals(sums, 109.5) == [80.0, 0.0]
    assert totals(sums, 111.5) == [50.0, 0.0]
    assert totals(sums, 130.0) == [0.0, 0.0]


def test_a_bucket_is_not_mistaken_for_one_a_whole_window_later() -> None:
    sums = window()
    add(sums, 0, 1000.0, 100.0)
    add(sums, 1, 10.0, 110.0)
    assert totals(sums, 110.0) == [0.0, 10.0]


def test_a_row_that_comes_twice_counts_twice() -> None:
    sums = window()
    sums.add(np.array([1, 1]), np.array([[2.0], [3.0]]), 100.0)
    assert totals(sums, 100.0) == [0.0, 5.0]


def test_rows_follow_their_owners() -> None:
    sums = window(3)
    for row in range(3):
        add(sums, row, float(row + 1), 100.0)
    sums.keep(np.array([2, 0]))
    sums.grow(4)
    assert totals(sums, 101.0)[:4] == [3.0, 1.0, 0.0, 0.0]


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(0, 100)), max_size=40))
def test_the_window_holds_the_last_nine_to_ten_seconds(steps: list[tuple[float, int]]) -> None:
    sums, now_s, added = window(1), 100.0, []
    for pause_s, value in steps:
        now_s += pause_s
        add(sums, 0, float(value), now_s)
        added.append((now_s, value))
    surely = sum(value for at_s, value in added if now_s - at_s <= 9.0)
    perhaps = sum(value for at_s, value in added if now_s - at_s <= 10.0)
    assert surely <= totals(sums, now_s)[0] <= perhaps


def test_a_longer_window_keeps_what_was_counted_and_a_shorter_one_what_is_young_enough() -> None:
    sums = SlidingSums(10.0, 1)
    sums.grow(1)
    for now_s in (100.2, 104.2, 108.2):
        sums.add(np.array([0]), np.array([[1.0]]), now_s)
    sums.configure(20.0)
    assert sums.totals(109.0).item() == 3.0
    assert sums.totals(119.0).item() == 3.0
    assert sums.totals(121.0).item() == 2.0
    sums.configure(5.0)
    sums.add(np.array([0]), np.array([[1.0]]), 121.2)
    assert sums.totals(121.4).item() == 1.0
