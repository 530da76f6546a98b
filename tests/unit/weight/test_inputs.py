"""What a policy works with must be known to somebody, or it shows."""

from __future__ import annotations

import numpy as np
import pytest

from isocost.config import Policy
from isocost.observe.speeds import Speeds
from isocost.weight.cost import Costs, costs
from isocost.weight.decide import Decision
from isocost.weight.inputs import missing_inputs, signal_states
from isocost.weight.requests import MeanRequest
from tests.unit.fleet_builder import ABSENT, UNSUPPORTED, observed_nothing
from tests.unit.weight.test_decide import NODES, healthy, run


def learned_costs(decision: Decision, learned: bool = True) -> Costs:
    count = len(decision.weight)
    known = np.full(count, learned)
    speeds = Speeds(np.full(count, 1e-4), np.full(count, 1e-2), known)
    observed = observed_nothing(count)
    return costs(
        speeds, MeanRequest(1000.0, 100.0), decision.telemetry, observed, decision.state.factor
    )


def missing(policy: Policy, **change: object) -> tuple[str, ...]:
    decision = run(healthy(**change), tpot_ms=[5.0] * len(NODES))  # type: ignore[arg-type]
    return missing_inputs(signal_states(decision, learned_costs(decision)), policy)


def test_a_healthy_fleet_misses_nothing() -> None:
    assert missing("weighted_random") == missing("min_entropy") == missing("equal_cost") == ()


def test_speeds_that_nobody_has_learned_are_missing_to_equal_cost() -> None:
    decision = run(healthy())
    states = signal_states(decision, learned_costs(decision, learned=False))
    assert missing_inputs(states, "equal_cost") == ("token_s",)


def test_every_node_is_counted_once_per_signal() -> None:
    samples = healthy()
    samples[0] = None
    decision = run(samples)
    states = signal_states(decision, learned_costs(decision))
    assert states["kv_usage"] == {"absent": 1, "measured": 2, "stale": 0, "unsupported": 0}
    assert {sum(counts.values()) for counts in states.values()} == {len(NODES)}


@pytest.mark.parametrize(
    ("change", "policy", "signals"),
    [
        ("waiting", "min_entropy", ("waiting",)),
        ("net", "min_entropy", ("net_bytes_per_s",)),
        ("kv_usage", "min_entropy", ("kv_usage",)),
        ("kv_usage", "weighted_random", ("free_vram_share",)),
        ("pcie", "weighted_random", ("pcie_utilisation",)),
        ("pcie", "min_entropy", ()),
        ("waiting", "equal_cost", ("waiting",)),
        ("kv_pool_gb", "equal_cost", ("kv_pool_tokens",)),
    ],
)
def test_a_signal_absent_on_all_nodes_is_missing_to_the_policy_that_uses_it(
    change: str, policy: Policy, signals: tuple[str, ...]
) -> None:
    assert missing(policy, **{change: ABSENT}) == signals


def test_one_node_that_tells_is_enough() -> None:
    samples = healthy(waiting=ABSENT)
    samples[0] = healthy()[0]
    decision = run(samples)
    states = signal_states(decision, learned_costs(decision))
    assert "waiting" not in missing_inputs(states, "min_entropy")


def test_hardware_that_does_not_have_something_misses_nothing() -> None:
    assert missing("weighted_random", nvlink=UNSUPPORTED) == ()


def test_nothing_is_missing_before_there_is_a_fleet() -> None:
    assert missing_inputs({}, "min_entropy") == ()
