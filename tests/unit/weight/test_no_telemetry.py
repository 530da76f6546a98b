"""A node of which nothing is known counts as the fleet's middle: unknown is neither zero nor best,
whatever the policy looks at.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.config import EntropySettings
from isocost.model import ABSENT, UNSUPPORTED, EngineSample, NodeSample, Signal
from isocost.observe.speeds import Speeds
from isocost.score.columns import Floats
from isocost.weight.capacity import capacity, relative_speed
from isocost.weight.cost import costs
from isocost.weight.decide import Decision
from tests.unit.fleet_builder import node, observed_nothing, sample
from tests.unit.weight.test_capacity import REQUEST
from tests.unit.weight.test_decide import run

SETTINGS = EntropySettings()
TOKEN_S = 1e-4
#: From idle to overloaded: what a node's load makes of all its signals.
loads = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=9)


def loaded(names: int, load: list[float]) -> list[NodeSample | None]:
    """Nodes whose signals all follow their loads; the last of ``names`` is unknown."""
    nodes = [node(f"n{number}") for number in range(names)]
    known: list[NodeSample | None] = [
        sample(
            of,
            free_gb=10.0 - 5.0 * level,
            kv_pool_gb=60.0,
            kv_usage=level,
            pcie=64e9 * level,
            running=200.0 * level,
            waiting=50.0 * level,
            net=1e9 * level,
        )
        for of, level in zip(nodes, load, strict=False)
    ]
    return [*known, None]


def decided(load: list[float], unknown: NodeSample | None = None) -> Decision:
    """Latencies follow the loads too; the gateways have none of the unknown node."""
    samples = loaded(len(load) + 1, load)
    nodes = [node(f"n{number}") for number in range(len(samples))]
    samples[-1] = unknown
    tpot_ms: list[float | None] = [10.0 + 40.0 * level for level in load]
    return run(samples, tpot_ms=[*tpot_ms, None], nodes=nodes)


def extra_s(of: Decision) -> Floats:
    count = len(of.weight)
    speeds = Speeds(np.full(count, TOKEN_S), np.full(count, 1e-2), np.ones(count, np.bool_))
    return costs(speeds, REQUEST, of.telemetry, observed_nothing(count), of.state.factor).extra_s


def test_each_signal_is_the_median_of_those_that_tell() -> None:
    of = decided([0.0, 0.2, 0.3, 0.6, 0.9])
    for name in ("free_share", "pcie_utilisation", "latency_ms"):
        filled = getattr(of, name).filled(0.0)
        assert filled[-1] == pytest.approx(np.median(filled[:-1])), name
    assert of.weight[-1] == pytest.approx(of.weight[2])
    for name in ("kv", "net", "queue"):
        terms = getattr(of.entropy_terms, name)
        assert terms[-1] == pytest.approx(np.median(terms[:-1])), name
    waits_s = extra_s(of)
    assert waits_s[-1] == pytest.approx(np.median(waits_s[:-1]))
    assert waits_s[-1] > 0.0
    assert of.state.standings[-1].reason == "no_telemetry"


@given(loads)
def test_under_no_policy_it_is_better_than_the_best(load: list[float]) -> None:
    of = decided(load)
    assert of.weight[-1] <= of.weight[:-1].max() * (1.0 + 1e-9)
    assert of.entropy[-1] >= of.entropy[:-1].min() * (1.0 - 1e-9)
    waits_s = extra_s(of)
    assert waits_s[-1] >= waits_s[:-1].min() * (1.0 - 1e-9)
    assert of.weight[-1] > 0.0 and np.isfinite(of.entropy[-1])


@pytest.mark.parametrize("unknown", [ABSENT, UNSUPPORTED])
def test_an_agent_that_can_read_nothing_is_as_good_as_none(unknown: Signal) -> None:
    load = [0.1, 0.4, 0.8]
    blind = NodeSample(
        node("n3"),
        engine_up=True,
        engine=EngineSample(unknown, unknown, unknown, unknown, unknown, unknown),
        net_bytes_per_s=unknown,
    )
    without, with_agent = decided(load), decided(load, blind)
    assert with_agent.weight.tolist() == pytest.approx(without.weight.tolist())
    assert with_agent.entropy.tolist() == pytest.approx(without.entropy.tolist())
    assert extra_s(with_agent).tolist() == pytest.approx(extra_s(without).tolist())


def test_its_capacity_is_what_the_gateways_see_of_its_pool() -> None:
    """That needs no agent: speeds are learned from answers, before that they are configured."""
    nodes = [node(f"n{number}") for number in range(3)]
    ones = np.ones(3)
    learned = Speeds(np.array([1e-4, 2e-4, 2e-4]), np.full(3, 1e-12), np.ones(3, np.bool_))
    found = capacity(nodes, relative_speed(learned, REQUEST, ones), ones, ones, {})
    assert found.tolist() == pytest.approx([1.0, 0.5, 0.5])
    unlearned = Speeds(learned.token_s, learned.output_token_s, np.array([True, True, False]))
    found = capacity(nodes, relative_speed(unlearned, REQUEST, ones), ones, ones, {})
    assert found[2] == pytest.approx(np.median([1.0, 0.5]), rel=0.01)
    assert found[2] < found.max()
