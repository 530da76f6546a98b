"""One tick's decision: from telemetry and observation to weights, entropies and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isocost.config import EntropySettings, WeightSettings
from isocost.model import Node, NodeSample
from isocost.observe.fleet import Observed
from isocost.score.columns import Column, Floats, column, derived
from isocost.score.entropy import EntropyTerms, entropy_terms, node_capacity
from isocost.score.health import health_factor
from isocost.score.telemetry import FleetTelemetry, fleet_telemetry
from isocost.score.vram import free_vram_share
from isocost.weight.override import Override
from isocost.weight.states import Standing, standing
from isocost.weight.weight import relative_weight


@dataclass(frozen=True)
class Decision:
    """What goes into the table, [n] in the order of the nodes, and the terms it came from."""

    weight: Floats
    entropy: Floats
    standings: tuple[Standing, ...]
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
    overrides: Mapping[str, Override],
    weight_settings: WeightSettings,
    entropy_settings: EntropySettings,
    lost_after_s: float,
) -> Decision:
    """Score n nodes. ``ages_s`` is the time since each sample arrived."""
    telemetry = fleet_telemetry(nodes, samples, ages_s)
    standings = tuple(
        standing(sample, age_s, lost_after_s) for sample, age_s in zip(samples, ages_s, strict=True)
    )
    eligible = np.array([item.state.eligible for item in standings], dtype=np.bool_)
    free_share = free_vram_share(telemetry)
    pcie = derived(
        telemetry.pcie_bytes_per_s.value / weight_settings.pcie_capacity_bytes_per_s,
        telemetry.pcie_bytes_per_s,
    )
    by_signal = {"tpot": observed.tpot_ms, "first_byte": observed.first_byte_ms}
    latency_ms = column(by_signal[weight_settings.latency_signal])
    health = health_factor(telemetry)
    weight = relative_weight(
        free_share.filled(default=1.0),
        pcie.filled(default=0.0),
        latency_ms.filled(default=0.0),
        health,
        eligible,
        weight_settings.latency_factor_per_ms,
    )
    terms = entropy_terms(
        telemetry, observed.open_age_s_sum, node_capacity(nodes, entropy_settings), entropy_settings
    )
    entropy = terms.total
    for index, node in enumerate(nodes):
        override = overrides.get(node.name)
        if override is None:
            continue
        if override.weight is not None and eligible[index]:
            weight[index] = override.weight
        if override.entropy is not None:
            entropy[index] = override.entropy
    return Decision(
        weight, entropy, standings, telemetry, free_share, pcie, latency_ms, health, terms
    )
