"""One tick's decision over a small fleet: telemetry, states and hands-on settings together."""

import math

import numpy as np
import pytest

from isocost.config import StateSettings, WeightSettings
from isocost.model import Node, NodeSample
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.fleet import FleetObserver
from isocost.weight.decide import Decision, decide
from isocost.weight.entropy import LARGEST_ENTROPY
from isocost.weight.fleet_states import FleetStates, Orders
from isocost.weight.override import Override, parse_override
from isocost.weight.weight import SMALLEST_WEIGHT
from tests.unit.fleet_builder import node, sample, telemetry_of, terms_of
from tests.unit.sample_blocks import fleet_samples

NODES = [node("a"), node("b"), node("c")]


def run(
    samples: list[NodeSample | None],
    ages_s: list[float] | None = None,
    tpot_ms: list[float | None] | None = None,
    overrides: dict[str, Override] | None = None,
    nodes: list[Node] = NODES,
    new: bool = False,
    **outcomes: dict[str, int],
) -> Decision:
    """The first tick of a fleet; ``outcomes`` by node name, ``new``: nobody served before."""
    observer = FleetObserver(10.0, 5.0)
    observations = []
    for item, ms in zip(nodes, tpot_ms or [None] * len(nodes), strict=True):
        latency = {} if ms is None else {"tpot_count": 1, "tpot_ms_sum": ms}
        observations.append(
            NodeObservation(item.id, **latency, **outcomes.get(item.name, {}))  # type: ignore[arg-type]
        )
    observer.apply(Batch("edge", 1, 1, tuple(observations)), 0.0)
    observed = observer.view([item.id for item in nodes], 0.0)
    ages = ages_s or [0.0] * len(nodes)
    orders = Orders({}, frozenset())
    states = FleetStates(StateSettings(), 3.0)
    told = telemetry_of(nodes, samples, ages)
    rows = fleet_samples(samples)
    state = states.tick(tuple(nodes), rows, ages, told, observed, orders, 0.0, not new)
    terms = terms_of(nodes, told, observed)
    return decide(nodes, told, terms, observed, state, overrides or {}, WeightSettings())


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
    assert decision.state.standings[2].reason == "no_telemetry"


def test_a_silent_agent_and_a_dead_engine_take_the_node_out() -> None:
    samples = healthy()
    samples[1] = sample(NODES[1], engine_up=False)
    decision = run(samples, ages_s=[0.0, 0.0, 3.1])
    assert [item.reason for item in decision.state.standings] == [
        "ok",
        "engine_down",
        "agent_silent",
    ]
    assert decision.weight.tolist() == [1.0, 0.0, 0.0]
    assert np.isfinite(decision.entropy).tolist() == [True, False, False]


def test_with_every_sample_stale_the_fleet_still_serves() -> None:
    assert (run(healthy(), ages_s=[2.0, 2.0, 2.0]).weight > 0).all()
    assert run(healthy(), ages_s=[9.0, 9.0, 9.0]).weight.tolist() == [1.0, 1.0, 1.0]


def test_a_state_lowers_the_weight_and_raises_the_entropy() -> None:
    failing = run(healthy(), b={"succeeded": 9, "server_errors": 1})
    assert failing.weight.tolist() == pytest.approx([1.0, 0.9, 1.0])
    assert failing.entropy[1] > failing.entropy[0]


def test_when_the_whole_fleet_warms_the_best_node_still_has_weight_one() -> None:
    assert run(healthy(), new=True).weight.tolist() == [1.0, 1.0, 1.0]


def test_settings_by_hand_stand_in_for_computed_numbers() -> None:
    decision = run(
        healthy(), overrides={"a": Override(weight=0.25), "b": Override(entropy=math.inf)}
    )
    assert decision.weight.tolist() == [0.25, 1.0, 1.0]
    assert math.isinf(decision.entropy[1])
    assert np.isfinite(decision.entropy[[0, 2]]).all()


def test_a_weight_or_an_entropy_by_hand_does_not_revive_a_lost_node() -> None:
    samples = healthy()
    samples[0] = sample(NODES[0], engine_up=False)
    assert run(samples, overrides={"a": Override(weight=1.0)}).weight[0] == 0.0
    assert math.isinf(run(samples, overrides={"a": Override(entropy=0.0)}).entropy[0])


def test_a_weight_by_hand_is_held_down_by_the_state_like_any_other() -> None:
    failing = run(
        healthy(), overrides={"b": Override(weight=0.5)}, b={"succeeded": 9, "server_errors": 1}
    )
    assert failing.weight.tolist() == pytest.approx([1.0, 0.45, 1.0])


def test_a_weight_by_hand_is_half_of_the_best_also_while_the_whole_fleet_warms() -> None:
    warming = run(healthy(), new=True, overrides={"a": Override(weight=0.5)})
    assert warming.weight.tolist() == pytest.approx([0.5, 1.0, 1.0])


def test_no_weight_is_above_one_though_a_node_by_hand_is_the_only_one_that_does_not_fail() -> None:
    samples = healthy()
    samples[0] = sample(NODES[0], free_gb=2.0, kv_usage=1.0)
    failing = {"succeeded": 6, "server_errors": 4}
    decision = run(samples, overrides={"a": Override(weight=1.0)}, b=failing, c=failing)
    assert decision.weight.tolist() == pytest.approx([1.0, 0.3, 0.3])


def test_a_weight_of_zero_by_hand_is_never_under_every_policy() -> None:
    decision = run(healthy(), overrides={"a": Override(weight=0.0)})
    assert decision.weight[0] == 0.0
    assert np.isfinite(decision.entropy).tolist() == [False, True, True]


def test_numbers_by_hand_stay_in_the_range_of_the_table() -> None:
    largest = parse_override({"entropy": LARGEST_ENTROPY})
    least = parse_override({"weight": SMALLEST_WEIGHT})
    failing = {"succeeded": 9, "server_errors": 1}
    decision = run(healthy(), overrides={"a": largest, "b": least}, a=failing, b=failing)
    assert math.isfinite(np.float32(decision.entropy[0]))
    assert np.float32(decision.weight[1]) > 0.0


def test_an_empty_fleet_is_an_empty_decision() -> None:
    decision = run([], nodes=[])
    assert decision.weight.size == 0
    assert decision.state.standings == ()
