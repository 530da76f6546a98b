"""The heat map's grid: few columns and classes, and nothing that matters lost."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.bench.page.cells import (
    INFINITE,
    MAX_CLASSES,
    MAX_COLUMNS,
    NOTHING,
    class_bounds,
    class_names,
    grid,
    highest,
    mean,
    runs,
)

values = st.floats(0, 1e9, allow_subnormal=False)
cells = st.none() | values | st.just(math.inf)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.lists(cells, max_size=400).map(tuple), max_size=4), st.sampled_from([1.0, 5.0]))
def test_every_value_lands_in_a_class_and_every_row_is_covered(
    rows: list[tuple[float | None, ...]], step_s: float
) -> None:
    made = grid(rows, step_s, highest)
    assert made.columns <= MAX_COLUMNS
    assert made.column_s == made.steps * step_s
    assert made.columns * made.steps >= max((len(row) for row in rows), default=0)
    kinds = {INFINITE, NOTHING, *class_names(made.bounds)}
    covered = sum(stop - start for kind in kinds for _, start, stop in runs(made, kind))
    assert covered == made.columns * len(rows)


@settings(deadline=None, derandomize=True)
@given(st.lists(values, min_size=1, max_size=50))
def test_the_bounds_rise_and_hold_every_value(found: list[float]) -> None:
    bounds = class_bounds(found)
    assert len(bounds) <= MAX_CLASSES + 1
    assert list(bounds) == sorted(set(bounds))
    assert bounds[0] <= min(found)
    assert bounds[-1] >= max(found) * (1 - 1e-6)


def test_a_value_at_a_bound_belongs_to_the_class_above_and_the_highest_to_the_last() -> None:
    made = grid([(0.0, 1.0, 2.0, 4.0)], 1.0, highest)
    assert made.bounds == (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
    assert made.classes == ((0, 2, 4, 7),)


def test_a_few_high_values_do_not_hide_the_others() -> None:
    bounds = class_bounds([1.0, 2.0, 3.0, 4.0, 1000.0])
    assert bounds == (0.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
    assert class_bounds([1.0, 2.0, 3.0, 4.0, 24.0]) == (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)


def test_a_short_peak_and_a_short_infinity_survive_the_merge() -> None:
    row = [1.0] * 600
    row[301] = 9.0
    row[411] = math.inf
    made = grid([tuple(row)], 1.0, highest)
    assert (made.columns, made.column_s) == (120, 5.0)
    assert made.classes[0][60] == len(made.bounds) - 2
    assert made.classes[0][82] == INFINITE


def test_a_column_is_unknown_only_if_all_of_it_is() -> None:
    row = (None,) * 5 + (None, 1.0, None, None, None) + (1.0,) * 590
    made = grid([row], 1.0, highest)
    assert made.classes[0][:2] == (NOTHING, made.classes[0][2])


def test_the_mean_is_of_what_is_known() -> None:
    assert mean((1.0, None, 3.0)) == 2.0
    assert mean((None, None)) is None


def test_neighbours_of_one_class_are_one_run() -> None:
    made = grid([(1.0, 1.0, None), (None, 1.0, 1.0)], 1.0, highest)
    assert list(runs(made, NOTHING)) == [(0, 2, 3), (1, 0, 1)]
    assert [run for kind in class_names(made.bounds) for run in runs(made, kind)] == [
        (0, 0, 2),
        (1, 1, 3),
    ]
