"""What a policy works with, and of how many nodes it is known.

A number that no node tells is replaced by a default, and the policy picks as if it did not matter:
that must show.
"""

from __future__ import annotations

from collections.abc import Mapping

from isocost.config import Policy
from isocost.model import SignalState
from isocost.score.columns import Column
from isocost.weight.cost import Costs
from isocost.weight.decide import Decision

_INPUTS: Mapping[Policy, tuple[str, ...]] = {
    "weighted_random": (
        "free_vram_share",
        "pcie_utilisation",
        "latency_ms",
        "nvlink_active_fraction",
    ),
    "min_entropy": ("kv_usage", "kv_pool_bytes", "waiting", "net_bytes_per_s"),
    "equal_cost": ("token_s", "kv_pool_tokens", "waiting", "nvlink_active_fraction"),
}


def signal_states(decision: Decision, costs: Costs) -> dict[str, dict[str, int]]:
    """By signal: how many nodes have it measured, stale, absent and unsupported."""
    telemetry = decision.telemetry
    columns: Mapping[str, Column] = {
        "free_vram_share": decision.free_share,
        "pcie_utilisation": decision.pcie_utilisation,
        "latency_ms": decision.latency_ms,
        "nvlink_active_fraction": telemetry.nvlink_active_fraction,
        "kv_usage": telemetry.kv_usage,
        "kv_pool_bytes": telemetry.kv_pool_bytes,
        "kv_pool_tokens": telemetry.kv_pool_tokens,
        "waiting": telemetry.waiting,
        "net_bytes_per_s": telemetry.net_bytes_per_s,
        # Learned from requests: absent until some were seen.
        "token_s": costs.token,
    }
    return {
        name: {state.name.lower(): int((column.state == state).sum()) for state in SignalState}
        for name, column in columns.items()
    }


def missing_inputs(states: Mapping[str, Mapping[str, int]], policy: Policy) -> tuple[str, ...]:
    """The policy's inputs that no node tells though one should: hardware that does not have
    something misses nothing.
    """
    return tuple(
        name
        for name in _INPUTS[policy]
        if name in states
        and states[name]["absent"] > 0
        and states[name]["measured"] + states[name]["stale"] == 0
    )
