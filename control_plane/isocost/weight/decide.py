"""One tick's decision: from telemetry, observation and states to weights and entropies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isocost.config import EntropySettings, WeightSettings
from isocost.model import Node, NodeSample, SignalState
from isocost.observe.fleet import Observed
from isocost.score.columns import Column, Floats, derived
from isocost.score.entropy import EntropyTerms, entropy_terms, node_capacity
from isocost.score.health import health_factor
from isocost.score.telemetry import FleetTelemetry, fleet_telemetry
from isocost.score.vram import free_vram_share
from isocost.weight.entropy import raised_entropy
from isocost.weight.fleet_states import FleetState
from isocost.weight.override import Override
from isocost.weight.weight import relative_weight


@dataclass(frozen=True)
class Decision:
    """What goes into the table, [n] in the order of the nodes, and the terms it came from."""

    weight: Floats
    entropy: Floats
    state: FleetState
    telemetry: FleetTelemetry
    free_share: Column
    pcie_utilisation: Column
    latency_ms: Column
    health: Floats
    entropy_terms: EntropyTerms


def decide(
    nodes: Sequence[Node],
    samples: Sequence[NodeSample | None],
    ages_s: Sequence[float],
    observed: Observed,
    state: FleetState,
    overrides: Mapping[str, Override],
    weight_settings: WeightSettings,
    entropy_settings: EntropySettings,
) -> Decision:
    """Score n nodes. ``ages_s`` is the time since each sample arrived.

    A weight or an entropy set by hand stands in for the computed one, and the state holds it down
    like that: a node that warms or may get nothing does so whatever was set.
    """
    telemetry = fleet_telemetry(nodes, samples, ages_s)
    free_share = free_vram_share(telemetry)
    pcie = derived(
        telemetry.pcie_bytes_per_s.value / weight_settings.pcie_capacity_bytes_per_s,
        telemetry.pcie_bytes_per_s,
    )
    by_signal = {"tpot": observed.tpot_ms, "first_byte": observed.first_byte_ms}
    latency_ms = _observed(by_signal[weight_settings.latency_signal])
    health = health_factor(telemetry)
    weight = relative_weight(
        free_share.filled(default=1.0),
        pcie.filled(default=0.0),
        latency_ms.filled(default=0.0),
        health,
        state.factor,
        weight_settings.latency_factor_per_ms,
    )
    terms = entropy_terms(
        telemetry, observed.open_age_s_sum, node_capacity(nodes, entropy_settings), entropy_settings
    )
    entropy = terms.total
    if overrides:
        for index, node in enumerate(nodes):
            override = overrides.get(node.name)
            if override is None:
                continue
            if override.weight is not None:
                weight[index] = override.weight * state.factor[index]
            if override.entropy is not None:
                entropy[index] = override.entropy
    return Decision(
        weight,
        raised_entropy(entropy, state.factor),
        state,
        telemetry,
        free_share,
        pcie,
        latency_ms,
        health,
        terms,
    )


def _observed(mean_ms: Floats) -> Column:
    """What the gateways observed lately, NaN where they did not."""
    known = ~np.isnan(mean_ms)
    state = np.where(known, SignalState.MEASURED, SignalState.ABSENT).astype(np.int8)
    return Column(np.where(known, mean_ms, 0.0), state, np.zeros_like(mean_ms))
