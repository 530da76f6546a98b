"""Weights that move the load move what is measured: the loop must come to rest."""

from __future__ import annotations

import numpy as np
import pytest

from isocost.config import StateSettings, WeightSettings
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.fleet import FleetObserver
from isocost.weight.decide import decide
from isocost.weight.fleet_states import FleetStates, Orders
from tests.unit.fleet_builder import node, sample, telemetry_of, terms_of
from tests.unit.sample_blocks import fleet_samples

TICK_S = 0.2
NODES = tuple(node(f"n{number}") for number in range(8))
SLOW = 7
FAIR_SHARE = 1.0 / len(NODES)
IDS = [item.id for item in NODES]


class Loop:
    """Constant load, drawn by the weights of the last tick; answers take as long as is said."""

    def __init__(self, requests_per_s: float, slow_ms: float) -> None:
        self.latency_ms = np.full(len(NODES), 20.0)
        self.latency_ms[SLOW] = slow_ms
        self._per_tick = requests_per_s * TICK_S
        self._random = np.random.default_rng(7)
        self._observer = FleetObserver(10.0, 5.0)
        self._states = FleetStates(StateSettings(), 3.0)
        self._tick = 0
        self._share = np.full(len(NODES), FAIR_SHARE)

    def run(self, seconds: float) -> np.ndarray:
        """The shares of each tick, [ticks, n]."""
        shares = [self._next() for _ in range(round(seconds / TICK_S))]
        return np.array(shares)

    def _next(self) -> np.ndarray:
        self._tick += 1
        now_s = self._tick * TICK_S
        picks = self._random.multinomial(self._random.poisson(self._per_tick), self._share)
        observations = tuple(
            NodeObservation(
                node_id,
                started=int(count),
                succeeded=int(count),
                tpot_count=int(count),
                tpot_ms_sum=float(count * latency_ms),
            )
            for node_id, count, latency_ms in zip(IDS, picks, self.latency_ms, strict=True)
        )
        self._observer.apply(Batch("edge", 1, self._tick, observations), now_s)
        observed = self._observer.view(IDS, now_s)
        samples, ages_s = [sample(item) for item in NODES], [0.0] * len(NODES)
        told = telemetry_of(NODES, samples, ages_s)
        state = self._states.tick(
            NODES,
            fleet_samples(samples),
            ages_s,
            told,
            observed,
            Orders({}, frozenset()),
            now_s,
            adopting=True,
        )
        terms = terms_of(NODES, told, observed)
        weight = decide(NODES, told, terms, observed, state, {}, WeightSettings()).weight
        self._share = weight / weight.sum()
        return self._share


@pytest.mark.parametrize(
    ("requests_per_s", "slow_ms", "part"),
    [
        (40.0, 90.0, 0.1),
        (40.0, 200.0, 0.1),
        (40.0, 2000.0, 0.1),
        (400.0, 200.0, 0.1),
        # A request per second and node: the few that find a slow node are more of the traffic.
        (10.0, 200.0, 0.25),
    ],
)
def test_under_constant_load_no_share_moves_by_more_than_a_tenth(
    requests_per_s: float, slow_ms: float, part: float
) -> None:
    """In the 90 s after the first 30: by no more than 10 % of the node's own share or of a fair
    one, as is more. Shares are the weights of each tick; tests/simulation has the other policies.
    """
    loop = Loop(requests_per_s, slow_ms)
    loop.run(30.0)
    shares = loop.run(90.0)
    moved = shares.max(axis=0) - shares.min(axis=0)
    allowed = part * np.maximum(shares.min(axis=0), FAIR_SHARE)
    assert (moved <= allowed).all(), (moved / FAIR_SHARE, shares.mean(axis=0))


def test_a_slow_node_that_heals_is_found_by_its_few_requests() -> None:
    loop = Loop(40.0, 200.0)
    assert loop.run(60.0)[-1, SLOW] < 0.1 * FAIR_SHARE
    loop.latency_ms[SLOW] = 20.0
    assert loop.run(120.0)[-1, SLOW] == pytest.approx(FAIR_SHARE)


def test_a_node_that_becomes_slow_has_lost_most_of_its_share_within_seconds() -> None:
    loop = Loop(40.0, 20.0)
    loop.run(30.0)
    loop.latency_ms[SLOW] = 200.0
    assert loop.run(5.0)[-1, SLOW] < 0.2 * FAIR_SHARE
