"""One tick's decision over a small fleet: states, hands-on settings, unknown telemetry."""

import math

import numpy as np
import pytest

from isocost.config import EntropySettings, WeightSettings
from isocost.model import Node, NodeSample, NodeState, measured
from isocost.observe.fleet import Observed
from isocost.weight.decide import Decision, decide
from isocost.weight.override import Override
from tests.unit.fleet_builder import ABSENT, node, sample

NODES = [node("a"), node("b"), node("c")]


def run(
    samples: list[NodeSample | None],
    ages_s: list[float] | None = None,
    tpot_ms: list[float | None] | None = None,
    overrides: dict[str, Override] | None = None,
    nodes: list[Node] = NODES,
) -> Decision:
    tpot = tuple(ABSENT if ms is None else measured(ms) for ms in tpot_ms or [None] * len(nodes))
    observed = Observed(
        np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes)), tpot, (ABSENT,) * len(nodes)
    )
    return decide(
        nodes,
        samples,
        ages_s or [0.0] * len(nodes),
        observed,
        overrides or {},
        WeightSettings(),
        EntropySettings(),
        lost_after_s=3.0,
    )


def healthy(**change: float) -> list[NodeSample | None]:
    return [sample(of, **change) for of in NODES]


def test_equal_nodes_have_equal_weights() -> None:
    assert run(healthy()).weight.tolist() == [1.0, 1.0, 1.0]


def test_less_free_vram_and_longer_latency_weigh_as_the_formula_says() -> None:
    samples = healthy()
    samples[1] = sample(NODES[1], free_gb=2.0, kv_usage=0.9)
    decision = run(samples, tpot_ms=[10.0, 10.0, 30.0])
    assert decision.weight[1] == pytest.approx((8.0 / 80.0) / (40.0 / 80.0))
    assert decision.weight[2] == pytest.approx(math.exp(-0.05 * 20.0))


def test_a_node_without_telemetry_gets_the_medians_and_not_the_best_share() -> None:
    samples = healthy()
    samples[0] = sample(NODES[0], kv_usage=0.0)
    samples[2] = None
    decision = run(samples)
    assert decision.weight[2] < decision.weight[0]
    assert decision.standings[2].reason == "no_telemetry"


def test_a_silent_agent_and_a_dead_engine_take_the_node_out() -> None:
    samples = healthy()
    samples[1] = sample(NODES[1], engine_up=False)
    decision = run(samples, ages_s=[0.0, 0.0, 3.1])
    assert [item.state for item in decision.standings] == [
        NodeState.SERVING,
        NodeState.LOST,
        NodeState.LOST,
    ]
    assert [item.reason for item in decision.standings] == ["ok", "engine_down", "agent_silent"]
    assert decision.weight.tolist() == [1.0, 0.0, 0.0]


def test_with_every_sample_stale_the_fleet_still_serves() -> None:
    decision = run(healthy(), ages_s=[2.0, 2.0, 2.0])
    assert (decision.weight > 0).all()


def test_settings_by_hand_stand_in_for_computed_numbers() -> None:
    decision = run(
        healthy(), overrides={"a": Override(weight=0.25), "b": Override(entropy=math.inf)}
    )
    assert decision.weight.tolist() == [0.25, 1.0, 1.0]
    assert math.isinf(decision.entropy[1])
    assert np.isfinite(decision.entropy[[0, 2]]).all()


def test_a_weight_by_hand_does_not_revive_a_lost_node() -> None:
    samples = healthy()
    samples[0] = sample(NODES[0], engine_up=False)
    assert run(samples, overrides={"a": Override(weight=1.0)}).weight[0] == 0.0


def test_an_empty_fleet_is_an_empty_decision() -> None:
    decision = run([], nodes=[])
    assert decision.weight.size == 0
    assert decision.standings == ()
