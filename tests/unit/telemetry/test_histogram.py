"""Recent quantiles and counters: arithmetic of two scrapes."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.model import ABSENT, Signal, measured
from isocost.telemetry.engines.counter import fell
from isocost.telemetry.engines.exposition import PageReader
from isocost.telemetry.engines.histogram import Histogram, quantile, read_histogram, recent

BOUNDS = (0.1, 0.5, 1.0, 5.0, math.inf)
VALUES = st.lists(st.floats(0, 10), max_size=30)
SHARES = st.floats(0, 1)


def of(values: list[float]) -> Histogram:
    return Histogram(BOUNDS, tuple(sum(value <= bound for value in values) for bound in BOUNDS))


def read(page: str, name: str = "h") -> Histogram | None:
    return read_histogram(PageReader((f"{name}_bucket", f"{name}_count")).read(page), name)


@given(VALUES, VALUES)
def test_what_came_between_two_scrapes_is_recent_and_nothing_else(
    before: list[float], new: list[float]
) -> None:
    assert recent(of(before), of(before + new)) == (of(new) if new else None)


@given(VALUES, VALUES)
def test_after_a_reset_all_that_was_counted_since_is_recent(
    before: list[float], new: list[float]
) -> None:
    seen = all(a <= b for a, b in zip(of(before).counts, of(new).counts, strict=True))
    got = recent(of(before), of(new))
    if not seen:
        assert got == (of(new) if new else None)


@given(VALUES.filter(bool), SHARES)
def test_a_quantile_is_in_the_bucket_of_the_value(values: list[float], share: float) -> None:
    got = quantile(of(values), share).value
    true = sorted(values)[max(math.ceil(share * len(values)), 1) - 1]
    at = bisect_left(BOUNDS, true)
    low, high = (0.0, *BOUNDS)[at], BOUNDS[at]
    assert low <= got <= high or (math.isinf(high) and got == 5.0)


@given(VALUES.filter(bool), SHARES, SHARES)
def test_a_higher_quantile_is_never_lower(values: list[float], one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert quantile(of(values), low).value <= quantile(of(values), high).value + 1e-9


@given(st.lists(st.floats(-5, 20), min_size=5, max_size=5), VALUES)
def test_counts_of_different_moments_still_make_a_histogram(
    late: list[float], before: list[float]
) -> None:
    """Buckets are not read at one moment: between two scrapes their differences may not rise."""
    old = of(before)
    counts = tuple(accumulate(max(value, 0.0) for value in late))
    torn = tuple(a + b for a, b in zip(old.counts, reversed(counts), strict=True))
    got = recent(old, Histogram(BOUNDS, torn))
    if got is not None:
        assert list(got.counts) == sorted(got.counts)
        assert math.isfinite(quantile(got, 0.9).value)


def test_the_first_scrape_and_nothing_new_have_no_recent_quantile() -> None:
    assert recent(None, of([1.0])) is None
    assert recent(of([1.0]), None) is None
    assert recent(of([1.0]), of([1.0])) is None
    assert quantile(None, 0.5) == quantile(of([]), 0.5) == ABSENT


def test_other_bounds_cannot_be_compared() -> None:
    assert recent(Histogram((1.0, math.inf), (0, 0)), of([1.0])) is None


def test_quantiles_are_linear_within_a_bucket() -> None:
    assert quantile(Histogram((1.0, 2.0, math.inf), (0, 4, 4)), 0.5) == measured(1.5)


def test_beyond_the_last_bound_that_bound_is_all_that_is_known() -> None:
    assert quantile(of([7.0, 8.0]), 0.99) == measured(5.0)
    assert quantile(Histogram((math.inf,), (3,)), 0.5) == ABSENT


def test_engines_and_models_are_added_up_and_a_sum_before_the_buckets_is_no_matter() -> None:
    page = "h_sum 9\n" + "".join(
        f'h_bucket{{le="{le}",engine="{engine}",model_name="My Model"}} {count}\n'
        for engine in (0, 1)
        for le, count in (("0", 0), ("0.5", 2), ("+Inf", 3))
    )
    assert read(page) == Histogram((0.0, 0.5, math.inf), (0, 4, 6))


def test_a_missing_last_bucket_is_the_count_and_without_that_nothing_is_known() -> None:
    page = 'h_bucket{le="1",m="a"} 2\n'
    assert read(page + 'h_count{m="a"} 5\n') == Histogram((1.0, math.inf), (2, 5))
    assert read(page + 'h_count{m="b"} 5\n') is None
    assert read(page) is None


@pytest.mark.parametrize(
    "page",
    [
        "",
        'h_bucket{le="x"} 1\nh_bucket{le="+Inf"} 1\n',
        'h_bucket{le="NaN"} 1\nh_bucket{le="+Inf"} 1\n',
        'h_bucket{le="1"} NaN\nh_bucket{le="+Inf"} 1\n',
        'h_bucket{le="1"} 3\nh_bucket{le="+Inf"} 2\n',
        'h_bucket{le="1"} -1\nh_bucket{le="+Inf"} 2\n',
        'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} +Inf\n',
        'h_bucket{le="1",e="0"} 1\nh_bucket{le="+Inf",e="0"} 1\nh_bucket{le="+Inf",e="1"} 1\n',
    ],
)
def test_what_is_no_histogram_is_not_known(page: str) -> None:
    assert read(page) is None


@pytest.mark.parametrize(("before", "after"), [(3.0, 2.9), (1e15, 0.0)])
def test_a_counter_that_fell_began_anew(before: float, after: float) -> None:
    assert fell(measured(before), measured(after))
    assert not fell(measured(after), measured(before))
    assert not fell(measured(before), measured(before))


@pytest.mark.parametrize(("before", "after"), [(ABSENT, measured(3)), (measured(3), ABSENT)])
def test_what_is_not_known_did_not_fall(before: Signal, after: Signal) -> None:
    assert not fell(before, after)
