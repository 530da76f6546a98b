"""A node whose first tokens come later than before, without load, is noticed; nothing else is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from isocost.config import StateSettings
from isocost.observe.speeds import TickTimes
from isocost.weight.jitter import CALM_S, UNSEEN_S, JitterWatch

TICK_S = 0.2
DELAY_S = 0.1
#: A fleet's usual traffic, requests per second and node.
PER_S = 10.0
Floats = NDArray[np.float64]


class Fleet:
    """Nodes whose first tokens are late by chance, and by what a test says."""

    def __init__(
        self, count: int = 8, seed: int = 1, pools: list[int] | None = None, part: float = 0.5
    ) -> None:
        self.pools = np.array(pools or [0] * count, dtype=np.intp)
        self.per_s = np.full(count, PER_S)
        #: Of each node: what its network adds, and by what factor its engine is slower.
        self.delay_s = np.zeros(count)
        self.slow = np.ones(count)
        #: Until when the requests of each wait in a queue that nobody knows of.
        self.queue_until_s = np.zeros(count)
        #: The scatter of one first token.
        self.scatter_s = 0.01
        self.now_s = 50.0
        self.rng = np.random.default_rng(seed)
        self.watch = JitterWatch(StateSettings(max_out_fraction=part))
        self.watch.rearrange(np.full(count, -1))

    def tick(self) -> Floats:
        self.now_s += TICK_S
        answers = self.rng.poisson(self.per_s * TICK_S)
        extra_s = np.full(len(self.per_s), math.nan)
        output_s = np.full(len(self.per_s), math.nan)
        for node in np.flatnonzero(answers):
            times_s = self.rng.normal(0.0, self.scatter_s, answers[node])
            # Jitter of a fifth of the delay, as on a bad link.
            times_s += self.delay_s[node] * self.rng.uniform(0.8, 1.2, answers[node])
            times_s += 0.03 * (self.slow[node] - 1.0)
            if self.now_s < self.queue_until_s[node]:
                times_s += self.rng.exponential(0.4, answers[node])
            extra_s[node] = times_s.mean()
            output_s[node] = self.slow[node] * self.rng.normal(0.010, 0.001)
        times = TickTimes(extra_s, output_s)
        return self.watch.update(times, self.pools, self.now_s).late

    def run(self, seconds: float) -> set[int]:
        """The nodes that were called late at any time."""
        late: set[int] = set()
        for _ in range(round(seconds / TICK_S)):
            late |= set(np.flatnonzero(self.tick()).tolist())
        return late

    def seconds_until(self, node: int, late: bool, within_s: float) -> float:
        start_s = self.now_s
        while self.tick()[node] != late:
            assert self.now_s - start_s < within_s
        return self.now_s - start_s


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("per_s", [4.0, 10.0, 50.0])
@pytest.mark.parametrize("count", [2, 4, 32])
def test_a_delay_is_noticed_in_time_and_its_end_as_well(
    seed: int, per_s: float, count: int
) -> None:
    fleet = Fleet(count, seed)
    fleet.per_s[:] = per_s
    assert fleet.run(20.0) == set()
    fleet.delay_s[1] = DELAY_S
    fleet.seconds_until(1, late=True, within_s=2.5)
    # A quarter of its share is left.
    fleet.per_s[1] /= 4
    assert fleet.run(10.0) == {1}
    fleet.delay_s[1] = 0.0
    fleet.seconds_until(1, late=False, within_s=UNSEEN_S + 1.0)
    fleet.per_s[1] = per_s
    assert fleet.run(20.0) == set()


@pytest.mark.parametrize("seed", range(3))
def test_a_delay_that_lasts_never_becomes_usual(seed: int) -> None:
    fleet = Fleet(seed=seed)
    fleet.run(20.0)
    fleet.delay_s[1] = DELAY_S
    fleet.seconds_until(1, late=True, within_s=2.5)
    fleet.per_s[1] = PER_S / 4
    late = [fleet.tick()[1] for _ in range(round(300.0 / TICK_S))]
    assert np.mean(late) > 0.95
    fleet.delay_s[1] = 0.0
    fleet.seconds_until(1, late=False, within_s=UNSEEN_S)


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_to_most_is_no_jitter_though_it_comes_unevenly(seed: int) -> None:
    """One node is earlier than usual meanwhile, so that the others seem to stand out."""
    fleet = Fleet(4, seed)
    fleet.run(20.0)
    late: list[int] = []
    for node, delay_s in enumerate((0.3, 0.2, 0.1)):
        fleet.delay_s[node] = delay_s
        late += np.flatnonzero(fleet.tick()).tolist()
    fleet.delay_s[3] = -0.2
    fleet.run(2.4)
    assert fleet.run(20.0) == set()
    assert late == []


def test_a_node_that_is_always_far_away_is_not_late() -> None:
    fleet = Fleet()
    fleet.delay_s[1] = 0.06
    fleet.delay_s[2] = 0.5
    assert fleet.run(120.0) == set()


@pytest.mark.parametrize("late_nodes", [5, 8])
def test_what_rises_at_most_nodes_is_no_jitter(late_nodes: int) -> None:
    fleet = Fleet(8)
    fleet.run(20.0)
    fleet.delay_s[:late_nodes] = 0.3
    assert fleet.run(60.0) == set()


def test_what_rises_at_a_whole_pool_is_no_jitter() -> None:
    """Another model's prompts became longer."""
    fleet = Fleet(8, pools=[0, 0, 0, 0, 0, 0, 1, 1])
    fleet.run(20.0)
    fleet.delay_s[6:] = 0.3
    assert fleet.run(60.0) == set()


def test_never_more_than_the_limit_are_late_and_those_that_are_latest() -> None:
    fleet = Fleet(8, part=0.25)
    fleet.run(20.0)
    fleet.delay_s[:3] = [0.1, 0.3, 0.2]
    for _ in range(100):
        assert np.count_nonzero(fleet.tick()) <= 2
    assert set(np.flatnonzero(fleet.tick())) == {1, 2}


@pytest.mark.parametrize("factor", [3.0, 10.0])
def test_a_slow_engine_is_not_called_jitter(factor: float) -> None:
    fleet = Fleet()
    fleet.run(20.0)
    fleet.slow[1] = factor
    assert fleet.run(60.0) == set()


@pytest.mark.parametrize("seed", range(10))
def test_bursts_are_no_jitter(seed: int) -> None:
    """Each node has a queue for up to a second, about every ten seconds and not twice in two."""
    fleet = Fleet(8, seed)
    for _ in range(round(180.0 / TICK_S)):
        begins = fleet.rng.random(8) < TICK_S / 8.0
        begins &= fleet.now_s > fleet.queue_until_s + 2.0
        lasts_s = fleet.rng.uniform(0.2, 1.0, 8)
        fleet.queue_until_s = np.where(begins, fleet.now_s + lasts_s, fleet.queue_until_s)
        assert not fleet.tick().any()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("per_s", "scatter_s"),
    [(PER_S, 0.2), (2.0, 0.2), (1.0, 0.2), (1.0, 1.0), (0.3, 0.05), (100.0, 0.05)],
)
def test_chance_is_no_jitter(seed: int, per_s: float, scatter_s: float) -> None:
    fleet = Fleet(8, seed)
    fleet.per_s[:] = per_s
    fleet.scatter_s = scatter_s
    assert fleet.run(180.0) == set()


@pytest.mark.parametrize("seed", range(5))
def test_load_that_comes_and_goes_is_no_jitter(seed: int) -> None:
    """Queues of some length everywhere, as the load of the fleet rises and falls in a minute."""
    fleet = Fleet(8, seed)
    for tick in range(round(240.0 / TICK_S)):
        load = 0.5 - 0.5 * math.cos(2 * math.pi * tick * TICK_S / 60.0)
        fleet.per_s[:] = PER_S * (0.1 + load)
        fleet.delay_s[:] = 0.3 * load * fleet.rng.uniform(0.8, 1.2, 8)
        assert not fleet.tick().any()


def test_a_node_is_judged_once_its_usual_times_are_known() -> None:
    fleet = Fleet()
    fleet.per_s[1] = 0.0
    fleet.run(60.0)
    fleet.per_s[1], fleet.delay_s[1] = PER_S, 0.3
    assert fleet.run(3.0) == set()
    # Compiling kernels and filling caches is over.
    fleet.delay_s[1] = 0.0
    assert fleet.run(30.0) == set()


def test_a_late_node_that_gets_nothing_may_show_itself_again() -> None:
    fleet = Fleet()
    fleet.run(20.0)
    fleet.delay_s[1] = DELAY_S
    fleet.seconds_until(1, late=True, within_s=2.5)
    fleet.per_s[1] = 0.0
    assert fleet.seconds_until(1, late=False, within_s=UNSEEN_S + 2.5) >= UNSEEN_S
    # It is late still.
    fleet.per_s[1] = PER_S
    fleet.seconds_until(1, late=True, within_s=2.5)


def test_a_late_node_that_shows_itself_now_and_then_is_noticed_each_time() -> None:
    fleet = Fleet()
    fleet.run(20.0)
    fleet.delay_s[1] = DELAY_S
    for _ in range(40):
        fleet.per_s[1] = PER_S
        fleet.seconds_until(1, late=True, within_s=2.5)
        fleet.per_s[1] = 0.0
        fleet.seconds_until(1, late=False, within_s=UNSEEN_S + 2.5)


def test_a_late_node_is_not_let_go_before_it_was_well_for_some_time() -> None:
    fleet = Fleet()
    fleet.run(20.0)
    fleet.delay_s[1] = DELAY_S
    fleet.seconds_until(1, late=True, within_s=2.5)
    fleet.delay_s[1] = 0.0
    assert fleet.seconds_until(1, late=False, within_s=UNSEEN_S) >= CALM_S


def test_one_tick_with_answers_does_not_show_that_a_late_node_is_well() -> None:
    fleet = Fleet()
    fleet.run(20.0)
    fleet.delay_s[1] = DELAY_S
    fleet.seconds_until(1, late=True, within_s=2.5)
    fleet.delay_s[1] = fleet.per_s[1] = 0.0
    assert fleet.run(2.4) == {1}
    fleet.per_s[1] = 100.0 / TICK_S
    fleet.tick()
    fleet.per_s[1] = 0.0
    # From its last late answers on, which were in the window for up to 2 s.
    assert fleet.seconds_until(1, late=False, within_s=UNSEEN_S) + 2.6 >= UNSEEN_S


def test_a_late_node_is_well_when_it_is_late_by_less_than_half_of_what_made_it_late() -> None:
    """A delay about the limit, 50 ms, must not take and give back a share again and again."""
    fleet = Fleet()
    fleet.run(20.0)
    fleet.delay_s[1] = DELAY_S
    fleet.seconds_until(1, late=True, within_s=2.5)
    fleet.delay_s[1] = 0.04
    assert all(fleet.tick()[1] for _ in range(round(20.0 / TICK_S)))
    fleet.delay_s[1] = 0.01
    fleet.seconds_until(1, late=False, within_s=UNSEEN_S)


def test_late_nodes_keep_their_places_when_the_roster_changes() -> None:
    fleet = Fleet(8)
    fleet.run(20.0)
    fleet.delay_s[5] = DELAY_S
    fleet.seconds_until(5, late=True, within_s=2.5)
    fleet.watch.rearrange(np.array([7, 5, 0, 1, 2, -1]))
    fleet.pools = np.zeros(6, dtype=np.intp)
    fleet.per_s = np.full(6, PER_S)
    fleet.slow, fleet.queue_until_s = np.ones(6), np.zeros(6)
    fleet.delay_s = np.array([0.0, DELAY_S, 0.0, 0.0, 0.0, 0.0])
    assert np.flatnonzero(fleet.tick()).tolist() == [1]
    # What is usual is known of those that stay, and of no other.
    fleet.delay_s[[0, 5]] = 0.3
    fleet.seconds_until(0, late=True, within_s=2.5)
    assert np.flatnonzero(fleet.tick()).tolist() == [0, 1]


def test_nothing_is_said_of_a_fleet_without_answers_or_nodes() -> None:
    fleet = Fleet(4)
    fleet.per_s[:] = 0.0
    assert fleet.run(10.0) == set()
    nothing = np.zeros(0)
    jitter = JitterWatch(StateSettings()).update(
        TickTimes(nothing, nothing), np.zeros(0, dtype=np.intp), 1.0
    )
    assert jitter.late.shape == jitter.rise_s.shape == jitter.limit_s.shape == (0,)
