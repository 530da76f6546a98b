"""Nodes of a pool are equally fast until one of them shows for seconds that it is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.observe.batch import NodeObservation, PrefillSums, node_table
from isocost.observe.speeds import (
    PRIOR_OUTPUT_TOKEN_S,
    PRIOR_TOKEN_S,
    START_S,
    SpeedLearner,
    Speeds,
)

TICK_S = 0.2
H100_S, A100_S = 25e-6, 70e-6
DELAY_S = 0.2


class Traffic:
    """Nodes whose times are a line with noise, observed tick by tick."""

    def __init__(self, token_s: list[float], pools: list[int] | None = None, seed: int = 1) -> None:
        self.token_s = list(token_s)
        #: What makes all times of a node longer, as a card that throttles.
        self.slow = [1.0] * len(token_s)
        self.pools = np.array(pools or [0] * len(token_s), dtype=np.intp)
        self.rows = np.arange(len(token_s), dtype=np.intp)
        self.rng = np.random.default_rng(seed)
        self.learner = SpeedLearner()
        self.learner.grow(len(token_s))
        #: Whose network is slow.
        self.late = np.zeros(len(token_s), dtype=np.bool_)
        self.now_s = 100.0

    def run(self, seconds: float, per_s: list[float], unseen: float = 0.0) -> Speeds:
        """Some of the prompts (``unseen``) wait behind another that nobody told of."""
        for _ in range(round(seconds / TICK_S)):
            self.now_s += TICK_S
            nodes = [self._observed(row, rate, unseen) for row, rate in enumerate(per_s)]
            self.learner.add(self.rows, node_table(nodes).news)
            speeds = self.learner.update(self.rows, self.pools, self.now_s, self.late)
        return speeds

    def _observed(self, row: int, rate: float, unseen: float) -> NodeObservation:
        count = self.rng.poisson(rate * TICK_S)
        x, other = self.rng.lognormal(7.0, 0.8, (2, count))
        before = other * (self.rng.random(count) < unseen)
        noise = self.rng.lognormal(-0.045, 0.3, (2, count))
        y = self.slow[row] * (0.035 + self.token_s[row] * (x + before)) * noise[0]
        tpot = self.slow[row] * 200 * self.token_s[row] * noise[1]
        return NodeObservation(
            row,
            prefill=sums(x, y),
            tpot_count=int(count),
            tpot_ms_sum=float(tpot.sum()) * 1e3,
        )


def sums(x: np.ndarray, y: np.ndarray) -> PrefillSums:
    return PrefillSums(len(x), float(x.sum()), float(y.sum()))


def spread(token_s: np.ndarray) -> float:
    return float(token_s.max() / token_s.min())


def test_nobody_seen_is_the_prior() -> None:
    speeds = Traffic([1e-4, 1e-4], [0, 1]).run(1.0, [0.0, 0.0])
    assert speeds.token_s.tolist() == pytest.approx([PRIOR_TOKEN_S] * 2)
    assert speeds.output_token_s.tolist() == pytest.approx([PRIOR_OUTPUT_TOKEN_S] * 2)
    assert not speeds.learned.any()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("unseen", [0.0, 0.3])
def test_the_ratio_of_two_kinds_is_known_within_a_quarter(seed: int, unseen: float) -> None:
    traffic = Traffic([H100_S] * 6 + [A100_S] * 2, [0] * 6 + [1] * 2, seed)
    traffic.run(20.0, [11.0] * 6 + [5.0] * 2, unseen)
    for _ in range(40):
        speeds = traffic.run(1.0, [11.0] * 6 + [5.0] * 2, unseen)
        assert speeds.token_s[7] / speeds.token_s[0] == pytest.approx(A100_S / H100_S, rel=0.25)
        assert speeds.output_token_s[7] / speeds.output_token_s[0] == pytest.approx(2.8, rel=0.25)
    assert speeds.learned.all()


@pytest.mark.parametrize("seed", range(5))
def test_equal_nodes_are_equal_whatever_their_load(seed: int) -> None:
    traffic = Traffic([H100_S] * 8, seed=seed)
    per_s = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0]
    traffic.run(20.0, per_s, unseen=0.2)
    for _ in range(40):
        assert spread(traffic.run(1.0, per_s, unseen=0.2).token_s) < 1.15


def test_a_burst_on_one_node_does_not_make_it_slow() -> None:
    traffic = Traffic([H100_S] * 8)
    traffic.run(20.0, [10.0] * 8)
    traffic.slow[3] = 10.0
    traffic.run(1.0, [10.0] * 8)
    traffic.slow[3] = 1.0
    assert spread(traffic.run(1.0, [10.0] * 8).token_s) < 1.15


@pytest.mark.parametrize("pools", [[0] * 8, [0, 0, 0, 1, 1, 2, 2, 2], [0, 0, 0, 1, 2, 2, 2, 2]])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("per_s", [5.0, 20.0])
def test_a_node_slowed_threefold_is_seen_within_four_seconds(
    seed: int, per_s: float, pools: list[int]
) -> None:
    traffic = Traffic([H100_S] * 8, pools, seed)
    before = traffic.run(20.0, [per_s] * 8).token_s
    traffic.slow[3] = 3.0
    after = traffic.run(4.0, [per_s] * 8).token_s
    assert after[3] > 2.0 * before[3]
    # Of two in a pool the other is taken for a little slower until it is clear which one it is.
    assert after[3] > 1.7 * np.delete(after, 3).max()
    assert 2.0 < traffic.run(30.0, [per_s] * 8).token_s[3] / before[3] < 4.5


@pytest.mark.parametrize("seed", range(5))
def test_and_when_it_is_fast_again_that_is_seen_as_well(seed: int) -> None:
    traffic = Traffic([H100_S] * 8, seed=seed)
    traffic.slow[3] = 3.0
    assert spread(traffic.run(60.0, [5.0] * 8).token_s) > 2.0
    traffic.slow[3] = 1.0
    assert spread(traffic.run(10.0, [5.0] * 3 + [2.0] + [5.0] * 4).token_s) < 1.15


def test_a_node_that_gets_nothing_is_forgiven_in_minutes() -> None:
    """A slow node is seldom asked, so it could not show that it is well again."""
    traffic = Traffic([H100_S] * 4)
    traffic.run(30.0, [20.0] * 4)
    traffic.slow[3] = 3.0
    slow = traffic.run(10.0, [20.0] * 4).token_s
    later = traffic.run(60.0, [20.0, 20.0, 20.0, 0.0]).token_s
    last = traffic.run(240.0, [20.0, 20.0, 20.0, 0.0]).token_s
    ratios = [token_s[3] / token_s[0] for token_s in (slow, later, last)]
    assert ratios[0] > 2.5
    assert ratios[1] == pytest.approx(ratios[0] ** 0.5, rel=0.05)
    assert ratios[2] < 1.05
    # And if it is not well its first requests tell.
    again = traffic.run(4.0, [20.0, 20.0, 20.0, 5.0]).token_s
    assert again[3] / again[0] > 2.0


def test_what_slows_all_nodes_is_news_of_none() -> None:
    traffic = Traffic([H100_S] * 4 + [A100_S], [0] * 4 + [1])
    before = traffic.run(60.0, [10.0] * 5).token_s
    traffic.slow = [3.0] * 5
    after = traffic.run(4.0, [10.0] * 5).token_s
    assert after / after[0] == pytest.approx(before / before[0], rel=0.2)


def test_a_node_without_observations_is_as_its_pool() -> None:
    token_s = Traffic([A100_S] * 4).run(60.0, [10.0, 10.0, 10.0, 0.0]).token_s
    assert token_s[3] == token_s[0]


def test_a_rest_forgets_nothing() -> None:
    traffic = Traffic([A100_S] * 4)
    before = traffic.run(60.0, [10.0] * 4).token_s
    traffic.now_s += 8 * 3600.0
    rested = traffic.run(TICK_S, [0.0] * 4)
    assert rested.learned.all()
    assert rested.token_s == pytest.approx(before, rel=0.25)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.floats(0.0, 1e5), st.floats(0.0, 100.0)), max_size=20),
    st.floats(1.0, 10.0),
)
def test_longer_times_never_make_a_node_faster(
    seen: list[tuple[float, float]], longer: float
) -> None:
    def token_s(factor: float) -> float:
        learner = SpeedLearner()
        learner.grow(1)
        row = np.zeros(1, dtype=np.intp)
        line = sums(np.array([x for x, _ in seen]), factor * np.array([y for _, y in seen]))
        learner.add(row, node_table([NodeObservation(1, prefill=line)]).news)
        return float(learner.update(row, row, 0.0).token_s[0])

    assert 0.0 < token_s(1.0) <= token_s(longer) * (1 + 1e-9) < np.inf


def test_what_a_delay_adds_is_extra_and_what_prompts_take_is_not() -> None:
    traffic = Traffic([H100_S] * 4)
    traffic.run(20.0, [20.0] * 4)
    traffic.learner.take(traffic.rows)
    tick_s = []
    for _ in range(100):
        traffic.run(TICK_S, [20.0] * 4)
        late = [NodeObservation(3, prefill=PrefillSums(1.0, 1000.0, 0.06 + DELAY_S))]
        traffic.learner.add(traffic.rows[3:], node_table(late).news)
        tick_s.append(traffic.learner.take(traffic.rows).extra_s)
    extra_s = np.nanmean(tick_s, axis=0)
    assert extra_s[:3] == pytest.approx([0.0] * 3, abs=0.01)
    # About one of five first tokens was late.
    assert DELAY_S / 10 < extra_s[3] < DELAY_S / 2


def test_a_slow_network_is_no_slow_node() -> None:
    traffic = Traffic([H100_S] * 4)
    before = traffic.run(20.0, [10.0] * 4).token_s
    traffic.slow[3] = 8.0
    assert traffic.run(4.0, [10.0] * 4).token_s[3] > 4.0 * before[3]
    late = np.array([False, False, False, True])
    traffic.late = late
    assert spread(traffic.run(TICK_S, [10.0] * 4).token_s) < 1.15
    during = traffic.run(30.0, [10.0] * 4).token_s
    assert during == pytest.approx(before, rel=0.25)
    # And what it was late by is no level of it when the delay is over.
    traffic.slow[3], traffic.late = 1.0, ~late & late
    for _ in range(40):
        assert spread(traffic.run(TICK_S, [10.0] * 4).token_s) < 1.15


def test_a_tick_tells_what_came_since_the_last_one_and_nothing_where_nothing_came() -> None:
    learner = SpeedLearner()
    learner.grow(2)
    rows = np.arange(2, dtype=np.intp)
    prefill = PrefillSums(2.0, 1000.0, 2 * START_S + 1000 * PRIOR_TOKEN_S + 0.5)
    for tpot_ms_sum in (20.0, 70.0):
        answers = [NodeObservation(0, prefill=prefill, tpot_count=3, tpot_ms_sum=tpot_ms_sum)]
        learner.add(rows[:1], node_table(answers).news)
    times = learner.take(rows)
    assert times.extra_s.tolist() == pytest.approx([0.25, np.nan], nan_ok=True)
    assert times.output_token_s.tolist() == pytest.approx([0.015, np.nan], nan_ok=True)
    assert np.isnan(learner.take(rows).extra_s).all()


def test_times_shorter_than_the_usual_start_teach_as_well() -> None:
    fast = Traffic([1e-6])
    fast.slow = [0.1]
    assert fast.run(60.0, [50.0]).token_s[0] < 0.1 * START_S / 1000
