"""The 95 % intervals keep their promise: for heavy tails, and where neighbours share fate."""

import math

import numpy as np
import pytest

from isocost.bench import interval
from isocost.bench.interval import BLOCKS, Blocked, Floats, Interval, Statistic, over_blocks
from isocost.bench.statistics import percentile

TRIALS = 500
MEDIAN, P99 = interval.weighted_quantile(0.50), interval.weighted_quantile(0.99)


def heavy(random: np.random.Generator, count: int) -> Floats:
    """A Pareto tail of index 1.5: its variance is infinite."""
    return 100.0 * (1.0 + random.pareto(1.5, count))


def blocked(values: Floats) -> Blocked:
    order = np.argsort(values)
    block = np.arange(values.size) * BLOCKS // values.size
    return Blocked(values[order], block[order])


@pytest.mark.parametrize(("fraction", "rounds"), [(0.50, 3), (0.99, 3), (0.50, 10), (0.99, 10)])
def test_the_interval_over_rounds_has_the_true_ratio_in_95_of_100(
    fraction: float, rounds: int
) -> None:
    random = np.random.default_rng(11)
    held = found = 0
    for _ in range(TRIALS):
        figures = np.quantile(heavy(random, rounds * 2 * 60).reshape(rounds, 2, 60), fraction, 2)
        logs = np.log(figures[:, 0] / figures[:, 1])
        same = interval.over_rounds(logs.tolist())
        assert same.high is not None
        held += same.low <= 1.0 <= same.high
        slower = interval.over_rounds((logs + math.log(1.3)).tolist())
        assert slower.high is not None
        found += slower.low <= 1.3 <= slower.high
    assert 0.90 <= held / TRIALS <= 0.99
    assert 0.90 <= found / TRIALS <= 0.99


@pytest.mark.parametrize(
    ("statistic", "correlation"), [(P99, 0.0), (MEDIAN, 0.8)], ids=["p99", "p50-neighbours"]
)
def test_the_interval_over_blocks_has_the_true_ratio_in_95_of_100(
    statistic: Statistic, correlation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interval, "RESAMPLES", 200)
    random = np.random.default_rng(12)
    held = 0
    for _ in range(TRIALS):
        ours, theirs = (blocked(_queue(random, 1000, correlation)) for _ in range(2))
        found = over_blocks(ours, theirs, 1, statistic, seed=1)
        assert found is not None and found.high is not None
        held += found.low <= 1.0 <= found.high
    assert 0.90 <= held / TRIALS <= 0.99


def _queue(random: np.random.Generator, count: int, correlation: float) -> Floats:
    """Log-normal latencies, each of which depends on the one before."""
    logs = random.standard_normal(count) * math.sqrt(1 - correlation**2)
    for number in range(1, count):
        logs[number] += correlation * logs[number - 1]
    return np.exp(logs)


def test_a_ratio_of_1_3_is_found_and_told_from_1() -> None:
    random = np.random.default_rng(13)
    ours, theirs = heavy(random, 3000) * 1.3, heavy(random, 3000)
    found = over_blocks(blocked(ours), blocked(theirs), 1, MEDIAN, seed=1)
    assert found is not None and found.high is not None
    assert 1.0 < found.low < 1.3 < found.high
    assert found.ratio == pytest.approx(np.median(ours) / np.median(theirs))


def test_rounds_give_the_geometric_mean_and_students_interval() -> None:
    logs = [math.log(ratio) for ratio in (1.0, 1.2, 1.44)]
    half = 4.303 * math.log(1.2) / math.sqrt(3)
    found = interval.over_rounds(logs)
    assert found.ratio == pytest.approx(1.2)
    assert found.low == pytest.approx(1.2 / math.exp(half))
    assert found.high == pytest.approx(1.2 * math.exp(half))


def test_many_rounds_keep_the_tables_last_value() -> None:
    found = interval.over_rounds([0.1, -0.1] * 50)
    assert found.high == pytest.approx(math.exp(2.042 * 0.1 / math.sqrt(99)))


def test_a_quantile_by_counts_is_that_of_the_values_repeated() -> None:
    random = np.random.default_rng(14)
    for _ in range(200):
        values = np.sort(random.normal(size=random.integers(1, 12)))
        counts = random.integers(0, 4, values.size)
        repeated = np.repeat(values, counts)
        for fraction in (0.0, 0.5, 0.9, 0.99, 1.0):
            expected = percentile(repeated.tolist(), fraction)
            found = interval.weighted_quantile(fraction)(values, counts)
            assert math.isnan(found) if expected is None else found == pytest.approx(expected)


def test_a_mean_by_counts_is_that_of_the_values_repeated() -> None:
    assert interval.weighted_mean(np.array([1.0, 4.0]), np.array([2, 1])) == 2.0
    assert math.isnan(interval.weighted_mean(np.array([1.0]), np.array([0])))


def test_blocks_hold_equally_many_requests_whatever_the_gaps() -> None:
    edges_s = interval.block_edges([*np.linspace(0, 1, 150), *np.linspace(500, 501, 150)])
    assert (edges_s.size, edges_s[0], edges_s[14] <= 1, edges_s[15]) == (BLOCKS, 0.0, True, 500.0)
    assert interval.block_edges([7.0]).tolist() == [7.0] * BLOCKS


@pytest.mark.parametrize(
    ("target", "baseline", "expected"),
    [
        (2.0, 1.0, math.log(2)),
        (0.0, 1.0, -math.inf),
        (1.0, 0.0, math.inf),
        (0.0, 0.0, math.nan),
        (math.nan, 1.0, math.nan),
        (1.0, math.nan, math.nan),
        (-1.0, 1.0, math.nan),
    ],
)
def test_a_ratio_with_nothing_in_it_is_not_a_number(
    target: float, baseline: float, expected: float
) -> None:
    assert interval.log_ratio(target, baseline) == pytest.approx(expected, nan_ok=True)


def test_a_draw_without_a_good_answer_leaves_one_side_open() -> None:
    """Of the baseline only one block has a good answer: a third of the draws miss it."""
    rare = blocked(np.array([1.0] + [0.0] * (BLOCKS - 1)))
    sure = blocked(np.ones(BLOCKS))
    found = over_blocks(sure, rare, 1, interval.weighted_mean, seed=1)
    assert found is not None and found.high is None
    assert found.ratio == pytest.approx(BLOCKS) and 1 < found.low < BLOCKS
    inverse = over_blocks(rare, sure, 1, interval.weighted_mean, seed=1)
    assert inverse == Interval(pytest.approx(1 / BLOCKS), 0.0, pytest.approx(1 / found.low))


def test_the_same_seed_gives_the_same_interval() -> None:
    random = np.random.default_rng(15)
    ours, theirs = blocked(heavy(random, 200)), blocked(heavy(random, 200))
    first, again, other = (over_blocks(ours, theirs, 1, P99, seed) for seed in (1, 1, 2))
    assert first == again != other
