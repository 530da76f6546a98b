"""Document A's accident: a clock that is off makes a node look idle, and it gets all long requests.

Eight nodes under ``min_entropy`` in virtual time: each request goes to the lowest entropy of the
last table, plus what was sent since. The nodes tell the ages of their work by their own clocks.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

import numpy as np
import pytest

from isocost.config import EntropySettings, StateSettings, WeightSettings
from isocost.model import Model, NodeSample, measured
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.fleet import FleetObserver
from isocost.score.columns import Floats
from isocost.score.constants import roster_constants
from isocost.score.telemetry import FleetTelemetry
from isocost.weight import anomaly, clocks, guards
from isocost.weight.decide import decide
from isocost.weight.fleet_states import FleetStates, Orders
from isocost.weight.guards import Guards, Scored
from tests.unit.fleet_builder import GB, node, sample, telemetry_of
from tests.unit.sample_blocks import fleet_samples

TICK_S = 0.2
NODES = 8
FAIR = 1.0 / NODES
#: A model whose KV cache is small, so that ages are most of the entropy.
MODEL = Model("m", kv_bytes_per_token=57_344)
POOL_TOKENS = 60 * GB / MODEL.kv_bytes_per_token
REQUESTS_PER_S = 120.0
OPEN_S = (2.0, 10.0)
SKEW_S = -5.0

FLEET = tuple(node(f"n{number}", models=(MODEL,)) for number in range(NODES))
IDS = [item.id for item in FLEET]


class Accident:
    """``off_s`` is how far each node's clock is ahead."""

    def __init__(self, off_s: list[float]) -> None:
        self.now_s = 100.0
        self.sent = np.zeros(NODES)
        self.scored: Scored
        self._off_s = off_s
        self._random = np.random.default_rng(3)
        self._observer = FleetObserver(10.0, 5.0)
        settings = EntropySettings()
        self._constants = roster_constants(FLEET, settings)
        self._guards = Guards(StateSettings(), settings)
        self._states = FleetStates(StateSettings(), 3.0)
        #: Of each node: (end, start, tokens) of its open requests.
        self._open: list[list[tuple[float, float, int]]] = [[] for _ in range(NODES)]
        self._entropy = np.zeros(NODES)
        self._sequence = 0

    def run(self, seconds: float) -> np.ndarray:
        """The share of the requests that each node got, [n]."""
        self.sent[:] = 0.0
        for _ in range(round(seconds / TICK_S)):
            self._tick()
        return self.sent / self.sent.sum()

    def _tick(self) -> None:
        self.now_s += TICK_S
        ended = [self._end(items) for items in self._open]
        started = self._dispatch()
        self._sequence += 1
        self._observer.apply(
            Batch(
                "edge",
                1,
                self._sequence,
                tuple(
                    NodeObservation(
                        IDS[index],
                        in_flight=len(items),
                        open_age_s_sum=sum(self.now_s - start_s for _, start_s, _ in items),
                        started=started[index],
                        succeeded=ended[index],
                        output_tokens=100 * ended[index],
                        kv_tokens=sum(tokens for *_, tokens in items),
                    )
                    for index, items in enumerate(self._open)
                ),
            ),
            self.now_s,
        )
        samples = [self._sample(index) for index in range(NODES)]
        observed = self._observer.view(IDS, self.now_s)
        telemetry = telemetry_of(FLEET, samples)
        self.scored = scored = self._guards.tick(
            FLEET,
            telemetry,
            np.array(self._off_s),
            observed,
            self._constants,
            np.zeros(NODES, dtype=np.intp),
            self.now_s,
        )
        state = self._states.tick(
            FLEET,
            fleet_samples(samples),
            [0.0] * NODES,
            scored.telemetry,
            observed,
            Orders({}, frozenset()),
            self.now_s,
            adopting=True,
            guarded=scored.guarded,
        )
        self._entropy = decide(
            FLEET, scored.telemetry, scored.terms, observed, state, {}, WeightSettings()
        ).entropy

    def _end(self, items: list[tuple[float, float, int]]) -> int:
        ended = 0
        while items and items[0][0] <= self.now_s:
            heapq.heappop(items)
            ended += 1
        return ended

    def _dispatch(self) -> list[int]:
        """Each to the lowest, which then is as much higher as a request makes it."""
        started, entropy = [0] * NODES, self._entropy.copy()
        for _ in range(self._random.poisson(REQUESTS_PER_S * TICK_S)):
            index = int(np.argmin(entropy + self._random.uniform(0.0, 1e-6, NODES)))
            tokens = int(self._random.lognormal(math.log(500.0), 0.5))
            end_s = self.now_s + self._random.uniform(*OPEN_S)
            heapq.heappush(self._open[index], (end_s, self.now_s, tokens))
            entropy[index] += 0.05
            started[index] += 1
            self.sent[index] += 1
        return started

    def _sample(self, index: int) -> NodeSample:
        items = self._open[index]
        tokens = sum(tokens for *_, tokens in items)
        # Each node has as many requests again that came past the gateways, of the same ages.
        running = 2.0 * len(items)
        told = sample(FLEET[index], kv_usage=tokens / POOL_TOKENS, running=running)
        engine = replace(
            told.engine,
            kv_pool_tokens=measured(POOL_TOKENS),
            generation_tokens_total=measured(self.now_s * 1000.0),
        )
        if not items:
            return replace(told, engine=engine)
        age_s = sum(self.now_s - start_s for _, start_s, _ in items) / len(items)
        told_s = max(age_s + self._off_s[index], 0.0)
        return replace(told, engine=engine, kv_cache_age_s=measured(told_s))


def fleet_with(wrong: int) -> Accident:
    """The last ``wrong`` clocks are 5 s off."""
    return Accident([0.0] * (NODES - wrong) + [SKEW_S] * wrong)


def test_with_right_clocks_all_get_the_same() -> None:
    accident = fleet_with(0)
    accident.run(10.0)
    assert accident.run(50.0) == pytest.approx([FAIR] * NODES, rel=0.1)
    assert not any(flags.any() for flags in accident.scored.found.values())


@pytest.mark.parametrize("wrong", [1, 2])
def test_a_wrong_clock_brings_no_more_traffic(wrong: int) -> None:
    accident = fleet_with(wrong)
    right = fleet_with(0)
    for one in (accident, right):
        one.run(10.0)
    # To the last request as if the clocks were right.
    assert accident.run(50.0).tolist() == right.run(50.0).tolist()
    assert np.flatnonzero(accident.scored.found["clock_skew"]).tolist() == [
        *range(NODES - wrong, NODES)
    ]


@pytest.mark.parametrize("wrong", [1, 2])
def test_a_wrong_clock_that_is_not_known_brings_less_than_the_accident(
    wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node's word counts for no less than what the gateways see."""
    monkeypatch.setattr(clocks, "CLOCK_SKEW_S", math.inf)
    share = shares(wrong)
    assert (share[-wrong:] < 1.5 * FAIR).all(), share


@pytest.mark.parametrize("wrong", [1, 2])
def test_where_a_nodes_word_is_all_there_is_the_open_requests_give_it_away(
    wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "open_ages", the_nodes_word)
    accident = fleet_with(wrong)
    accident.run(10.0)
    share = accident.run(50.0)
    assert (share[-wrong:] <= 1.05 * FAIR).all(), share
    assert accident.scored.found["anomaly"][-wrong:].all()
    assert not accident.scored.found["anomaly"][:-wrong].any()


@pytest.mark.parametrize("wrong", [1, 2])
def test_without_the_guards_the_accident_happens(
    wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "open_ages", the_nodes_word)
    monkeypatch.setattr(anomaly, "_FEWEST_NODES", NODES + 1)
    share = shares(wrong)
    assert (share[-wrong:] > 2.0 * FAIR).all(), share


def shares(wrong: int) -> Floats:
    accident = fleet_with(wrong)
    accident.run(10.0)
    return accident.run(50.0)


def the_nodes_word(telemetry: FleetTelemetry, *_: object) -> Floats:
    return telemetry.kv_cache_age_s.value * telemetry.running.value
