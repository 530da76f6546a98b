"""Speeds are learned from noisy times, borrowed where there are few, and follow a change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.observe.batch import LineSums, NodeObservation
from isocost.observe.slopes import SlopeLearner
from isocost.observe.speeds import PRIOR_REQUEST_S, PRIOR_TOKEN_S, SpeedLearner, Speeds

TICK_S = 0.2
START_S = 0.05


class Traffic:
    """Nodes whose times are a line with noise, observed tick by tick."""

    def __init__(self, token_s: list[float], pools: list[int] | None = None, seed: int = 1) -> None:
        self.token_s = list(token_s)
        #: What makes all times of a node longer, as a card that throttles.
        self.slow = [1.0] * len(token_s)
        self.step_s = [2e-4] * len(token_s)
        self.pools = np.array(pools or [0] * len(token_s), dtype=np.intp)
        self.rows = np.arange(len(token_s), dtype=np.intp)
        self.rng = np.random.default_rng(seed)
        self.learner = SpeedLearner()
        self.learner.grow(len(token_s))
        self.now_s = 100.0

    def run(self, seconds: float, per_s: list[float], noise: float = 0.3) -> Speeds:
        for _ in range(round(seconds / TICK_S)):
            self.now_s += TICK_S
            nodes = []
            for row, rate in enumerate(per_s):
                count = self.rng.poisson(rate * TICK_S)
                x = self.rng.lognormal(7.0, 0.8, count)
                y = self.slow[row] * (START_S + self.token_s[row] * x) * self._noise(noise, count)
                r = self.rng.integers(1, 30, count).astype(float)
                t = (0.01 + self.step_s[row] * r) * self._noise(noise, count)
                nodes.append(NodeObservation(row, prefill=sums(x, y), decode=sums(r, t)))
            self.learner.add(self.rows, nodes)
            speeds = self.learner.update(self.rows, self.pools, self.now_s)
        return speeds

    def _noise(self, scale: float, count: int) -> np.ndarray:
        return self.rng.lognormal(-scale * scale / 2, scale, count)


def sums(x: np.ndarray, y: np.ndarray) -> LineSums:
    return LineSums(
        len(x), float(x.sum()), float((x * x).sum()), float(y.sum()), float((x * y).sum())
    )


def test_nobody_seen_is_the_prior_and_never_zero() -> None:
    speeds = Traffic([1e-4, 1e-4], [0, 1]).run(1.0, [0.0, 0.0])
    assert speeds.token_s.tolist() == pytest.approx([PRIOR_TOKEN_S] * 2)
    assert speeds.request_s(256.0).tolist() == pytest.approx([PRIOR_REQUEST_S] * 2)
    assert not speeds.token_learned.any()
    assert not speeds.step_learned.any()


@pytest.mark.parametrize("seed", range(5))
def test_the_constants_of_noisy_data_are_recovered_within_ten_per_cent(seed: int) -> None:
    truth = [1 / 15_000, 1 / 15_000, 1 / 7_500, 1 / 7_500]
    traffic = Traffic(truth, [0, 0, 1, 1], seed)
    traffic.step_s = [2e-4, 2e-4, 4e-4, 4e-4]
    speeds = traffic.run(60.0, [20.0] * 4, noise=0.15)
    assert speeds.token_s / truth == pytest.approx(np.ones(4), abs=0.1)
    assert speeds.step_s / traffic.step_s == pytest.approx(np.ones(4), abs=0.1)
    assert speeds.token_learned.all()


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_differs_from_its_pool_is_told_from_it(seed: int) -> None:
    traffic = Traffic([1 / 15_000] * 7 + [1 / 5_000], seed=seed)
    speeds = traffic.run(60.0, [5.0] * 8, noise=0.2)
    assert speeds.token_s[7] / traffic.token_s[7] == pytest.approx(1.0, abs=0.25)
    assert speeds.token_s[:7] * 15_000 == pytest.approx(np.ones(7), abs=0.15)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("per_s", [3.0, 10.0])
def test_a_node_slowed_threefold_is_seen_within_five_seconds(seed: int, per_s: float) -> None:
    traffic = Traffic([1 / 15_000] * 8, seed=seed)
    before = traffic.run(60.0, [per_s] * 8).token_s[3]
    traffic.slow[3] = 3.0
    after = traffic.run(5.0, [per_s] * 8).token_s
    assert after[3] > 1.8 * before
    assert after[3] > 1.6 * np.delete(after, 3).max()


@pytest.mark.parametrize("seed", range(5))
def test_and_when_it_is_fast_again_that_is_seen_as_well(seed: int) -> None:
    traffic = Traffic([1 / 15_000] * 8, seed=seed)
    traffic.slow[3] = 3.0
    traffic.run(60.0, [5.0] * 8)
    traffic.slow[3] = 1.0
    after = traffic.run(6.0, [5.0] * 3 + [2.0] + [5.0] * 4).token_s
    assert after[3] < 1.6 / 15_000


@pytest.mark.parametrize("seed", range(5))
def test_steady_nodes_keep_their_speed(seed: int) -> None:
    traffic = Traffic([1 / 15_000] * 8, seed=seed)
    traffic.run(60.0, [10.0] * 8)
    for _ in range(60):
        token_s = traffic.run(1.0, [10.0] * 8).token_s
        assert token_s.max() / token_s.min() < 1.5


def test_a_node_with_few_observations_is_as_its_pool() -> None:
    traffic = Traffic([1 / 5_000] * 4)
    speeds = traffic.run(60.0, [10.0, 10.0, 10.0, 0.0])
    assert speeds.token_s[3] * 5_000 == pytest.approx(1.0, abs=0.15)


def test_a_rest_forgets_nothing() -> None:
    traffic = Traffic([1 / 5_000] * 4)
    traffic.run(60.0, [10.0] * 4)
    traffic.now_s += 8 * 3600.0
    rested = traffic.run(TICK_S, [0.0] * 4)
    assert rested.token_learned.all()
    assert rested.token_s * 5_000 == pytest.approx(np.ones(4), abs=0.25)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.floats(1.0, 1e5), st.floats(1e-4, 100.0)), max_size=20),
    st.floats(1.0, 10.0),
)
def test_longer_times_never_make_a_node_faster(
    seen: list[tuple[float, float]], longer: float
) -> None:
    def slope(factor: float) -> float:
        learner = SlopeLearner(PRIOR_TOKEN_S, 500.0)
        learner.grow(1)
        row = np.zeros(1, dtype=np.intp)
        line = sums(np.array([x for x, _ in seen]), factor * np.array([y for _, y in seen]))
        learner.add(row, np.array([line], dtype=np.float64))
        return float(learner.update(row, row, 0.0).slope[0])

    assert 0.0 < slope(1.0) <= slope(longer) * (1 + 1e-9) < np.inf
