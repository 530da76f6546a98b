"""One tick's decision: from telemetry, observation and states to weights and entropies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isocost.config import WeightSettings
from isocost.model import Node, SignalState
from isocost.observe.fleet import Observed
from isocost.observe.latency import Latency
from isocost.score.columns import Column, Floats
from isocost.score.entropy import EntropyTerms
from isocost.score.telemetry import FleetTelemetry
from isocost.score.vram import free_vram_share
from isocost.weight.entropy import raised_entropy
from isocost.weight.fleet_states import FleetState
from isocost.weight.override import Override
from isocost.weight.weight import SMALLEST_WEIGHT, relative_weight

#: A node that is slow gets few requests, so its latency is seldom seen: forgotten in the 5 s of
#: other signals it would get its whole share back, show that it is slow, and lose it again, over
#: and over. In a minute its share rises so slowly that the first few requests show it.
LATENCY_DECAY_S = 60.0


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
    telemetry: FleetTelemetry,
    terms: EntropyTerms,
    observed: Observed,
    state: FleetState,
    overrides: Mapping[str, Override],
    weight_settings: WeightSettings,
) -> Decision:
    """Score n nodes.

    A weight or an entropy set by hand stands in for the computed one, and the state holds it down
    like that: a node that warms or may get nothing does so whatever was set.
    """
    free_share = free_vram_share(telemetry)
    pcie_bytes_per_s = telemetry.pcie_bytes_per_s
    pcie = replace(
        pcie_bytes_per_s,
        value=pcie_bytes_per_s.value / weight_settings.pcie_capacity_bytes_per_s,
    )
    by_signal = {"tpot": observed.tpot, "first_byte": observed.first_byte}
    latency_ms = _column(by_signal[weight_settings.latency_signal])
    health = state.hardware.factor
    weight = relative_weight(
        free_share.filled(default=1.0),
        pcie.filled(default=0.0),
        latency_ms.filled(default=0.0, decay_s=LATENCY_DECAY_S),
        health,
        state.factor,
        weight_settings.latency_factor_per_ms,
    )
    entropy = terms.total
    if overrides and nodes:
        weight = _by_hand(nodes, overrides, weight, entropy, state.factor)
    return Decision(
        weight,
        raised_entropy(entropy, state.factor * health),
        state,
        telemetry,
        free_share,
        pcie,
        latency_ms,
        health,
        terms,
    )


def _by_hand(
    nodes: Sequence[Node],
    overrides: Mapping[str, Override],
    weight: Floats,
    entropy: Floats,
    factor: Floats,
) -> Floats:
    """The weights with those by hand in them; entropies by hand are written into ``entropy``.

    Computed weights are relative to the best node with its state's factor, so a weight by hand is
    too: 0.5 is half of what the best node gets, also while the whole fleet warms.
    """
    best = float(factor[np.argmax(weight)]) or 1.0
    result = weight.copy()
    for index, node in enumerate(nodes):
        override = overrides.get(node.name)
        if override is None:
            continue
        if override.weight is not None:
            result[index] = override.weight * factor[index] / best
            if override.weight == 0.0:
                # Never, whatever the policy looks at.
                entropy[index] = math.inf
            elif factor[index] > 0.0:
                result[index] = max(result[index], SMALLEST_WEIGHT)
        if override.entropy is not None:
            entropy[index] = override.entropy
    largest = result.max()
    if largest > 1.0:
        result = np.where(result > 0.0, np.maximum(result / largest, SMALLEST_WEIGHT), 0.0)
    return result


def _column(latency: Latency) -> Column:
    """What the gateways observed: lately, some time ago, or never."""
    known = ~np.isnan(latency.mean_ms)
    state = np.where(latency.age_s > 0.0, SignalState.STALE, SignalState.MEASURED)
    state = np.where(known, state, SignalState.ABSENT).astype(np.int8)
    return Column(np.where(known, latency.mean_ms, 0.0), state, np.where(known, latency.age_s, 0.0))
