"""The simulated gateways do what they are there to show."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from isocost.bench.load import load
from isocost.bench.trace import TraceRequest
from isocost.demo import fleet as demo
from isocost.fake.engine import Engine
from isocost.fake.sequence import Prompt
from isocost.fake.speeds import Speed
from tests.simulation import policies
from tests.simulation.envoy import LeastRequest, RoundRobin
from tests.simulation.equal_cost import EqualCost
from tests.simulation.fleet import Request, Slowdown, replay
from tests.simulation.learning import Learner, Node
from tests.simulation.policies import result
from tests.simulation.work import Work

#: 20 us a prompt token, 10 ms a step.
FAST = Speed(0.0, 0.01, 0.0, 0.0, 2e-5, 0.0, 0.0)
SLOW = Speed(0.0, 0.02, 0.0, 0.0, 6e-5, 0.0, 0.0)


def engines() -> list[Engine]:
    return [Engine(speed, 20_000, 64) for speed in (FAST, FAST, SLOW, SLOW)]


def learned() -> list[Node]:
    return [
        Node(speed.token_s, 320_000, capacity) for speed, capacity in ((FAST, 3.0), (SLOW, 1.0))
    ] * 2


def in_pairs() -> list[Engine]:
    return [Engine(speed, 20_000, 64) for speed in (FAST, SLOW, FAST, SLOW)]


def trace(count: int, every_s: float) -> list[TraceRequest]:
    """Every eighth prompt is long."""
    return [
        TraceRequest(number * every_s, 8000 if number % 8 == 0 else 500, 40)
        for number in range(count)
    ]


def test_a_request_takes_what_the_engine_takes() -> None:
    (only,) = replay([TraceRequest(1.0, 1000, 11)], engines(), RoundRobin(1, 1, 1))
    assert only.first_token_s == pytest.approx(1.03)  # One step, and 1,000 x 20 us.
    assert only.finished_s == pytest.approx(1.13)


def test_a_slowed_node_is_slow_from_then_on() -> None:
    items = [TraceRequest(at_s, 1000, 1) for at_s in (0.0, 1.0, 2.0)]
    done = replay(items, engines(), RoundRobin(1, 1, 1), Slowdown(0, 3, 1.5))
    waits = [(item.first_token_s or 0.0) - item.arrival_s for item in done]
    assert waits == pytest.approx([0.03, 0.03, 0.09])


def test_least_request_counts_per_envoy() -> None:
    requests = [Request(number, 0.0, Prompt(1), 1) for number in range(40)]
    counts = {
        envoys: Counter(map(LeastRequest(4, envoys, 1).choose, [0.0] * 40, requests))
        for envoys in (1, 20)
    }
    assert max(counts[1].values()) <= 12 < max(counts[20].values())


def test_equal_cost_knows_sizes_and_speeds() -> None:
    items = trace(1200, 0.025)
    least = result(replay(items, in_pairs(), LeastRequest(4, 1, 1)))
    equal = result(replay(items, in_pairs(), EqualCost(learned(), 2, 40, 1)))
    assert equal.ttft_p99_ms < 0.65 * least.ttft_p99_ms
    assert equal.e2e_mean_s < least.e2e_mean_s


@pytest.mark.parametrize("vms", [2, 8])
def test_speeds_that_are_learned_are_as_good_as_given_ones(vms: int) -> None:
    items = load("azure-conv", seed=1, rate=100.0)
    known = policies.learned({kind: demo.CAPACITY[kind] for kind in policies.HARDWARE})
    learner = policies.learner(250.0)
    given = EqualCost(known, vms, 250.0, 1)
    found = EqualCost(learner.unlearned, vms, 250.0, 1, learner=learner)
    engines = [[policies.engine(kind) for kind in policies.KINDS] for _ in range(2)]
    of_given = result(replay(items, engines[0], given))
    of_found = result(replay(items, engines[1], found))
    assert of_found.ttft_p99_ms < 1.1 * of_given.ttft_p99_ms
    for at_s, nodes in learner.history:
        if 20.0 < at_s < items[-1].arrival_s:
            _check([node.token_s for node in nodes], [node.token_s for node in known])
            _check([node.capacity for node in nodes], [node.capacity for node in known])


def _check(believed: list[float], true: list[float]) -> None:
    """Up to a common factor: nodes of a kind within 15 %, kinds within a quarter."""
    off = np.log(np.array(believed) / true).reshape(len(policies.HARDWARE), -1)
    middle = off.mean(axis=1, keepdims=True)
    assert np.abs(off - middle).max() < np.log(1.15)
    assert np.abs(middle[1] - middle[0]) < np.log(1.25)


def test_a_slowed_node_is_known_within_four_seconds() -> None:
    learner = Learner([0] * 4, [320_000] * 4, 40)
    gateway = EqualCost(learner.unlearned, 8, 40, 1, learner=learner)
    engines = [Engine(FAST, 20_000, 64) for _ in range(4)]
    replay(trace(1600, 0.025), engines, gateway, Slowdown(0, 3, 20.0))
    token_s = next([n.token_s for n in nodes] for at_s, nodes in learner.history if at_s > 24.0)
    assert token_s[0] > 2.0 * max(token_s[1:])


@pytest.mark.parametrize("told", [True, False])
def test_a_prompt_goes_where_it_is_held(told: bool) -> None:
    """Forty conversations, each of which comes back four times with the same beginning."""
    blocks = tuple(tuple(range(talk * 16, talk * 16 + 16)) for talk in range(40))
    items = [
        TraceRequest(number * 0.5, 8192, 10, blocks[number % 40], block_tokens=512)
        for number in range(160)
    ]
    nodes = engines()
    replay(items, nodes, EqualCost(learned(), 2, 10, 1, caches=nodes if told else ()))
    found = sum(node.prefix_hits_total for node in nodes)
    assert found > 0.6 * sum(node.prefix_queries_total for node in nodes)


@pytest.mark.parametrize("dispersion", [True, False])
def test_the_cap_bounds_a_burst(dispersion: bool) -> None:
    """One node seems ten times as fast: without the cap it gets nearly everything."""
    nodes = [Node(1e-6 if index == 0 else 1e-4, 10**9, 1.0) for index in range(8)]
    gateway = EqualCost(nodes, 4, 40, 1, dispersion=dispersion)
    requests = [Request(number, 0.001, Prompt(500), 40) for number in range(200)]
    most = max(Counter(gateway.choose(0.001, request) for request in requests).values())
    assert (most <= 1.25 * 200 / 8 + 1) is dispersion


@pytest.mark.parametrize(
    ("own", "table", "seen", "factor", "expected"),
    [(5.0, 20.0, 2.0, 4.0, 32.0), (1.0, 20.0, 2.0, 4.0, 16.0), (9.0, 2.0, 9.0, 4.0, 9.0)],
    ids=["own grew", "own ended", "never below the own"],
)
def test_a_table_is_corrected_by_the_own_change_since(
    own: float, table: float, seen: float, factor: float, expected: float
) -> None:
    works = [Work(value, value, value) for value in (own, table, seen, expected)]
    assert works[0].projected(works[1], works[2], factor) == works[3]
