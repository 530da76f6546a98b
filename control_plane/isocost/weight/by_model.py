"""What the table has of each model of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from isocost.config import WeightSettings
from isocost.observe.fleet import Observed
from isocost.observe.speeds import Speeds
from isocost.score.columns import Floats
from isocost.score.constants import RosterConstants
from isocost.score.model_engines import ModelEngines
from isocost.score.model_rows import ModelRows
from isocost.weight.capacity import capacity, relative_speed
from isocost.weight.cost import Costs, costs
from isocost.weight.decide import Decision, decide
from isocost.weight.override import Override
from isocost.weight.requests import MeanRequest


@dataclass(frozen=True)
class ByModel:
    """Of m rows, each [m]; speed and capacity are relative to the best."""

    rows: ModelRows
    decision: Decision
    observed: Observed
    speed: Floats
    capacity: Floats
    costs: Costs


def by_model(
    rows: ModelRows,
    engines: ModelEngines | None,
    nodes: Decision,
    of_nodes: Observed,
    of_rows: Observed,
    constants: RosterConstants,
    speeds: Speeds,
    request: MeanRequest,
    overrides: Mapping[str, Override],
    settings: WeightSettings,
) -> ByModel:
    """``nodes`` and ``of_nodes`` are of the n nodes, ``of_rows``, ``constants`` and ``speeds`` of
    the m rows. Where each node is one row (``engines``: None) its decision is the row's; else a row
    has the weight that its own model's latency and KV cache give it, and the entropy, which is what
    the cards carry, of its node.
    """
    decision, seen, node_of = nodes, of_rows, rows.node_of
    if engines is not None:
        by_row = decide(
            rows.nodes,
            engines.on_rows(nodes.telemetry),
            nodes.entropy_terms.of(node_of),
            of_rows,
            nodes.state.of(node_of),
            overrides,
            settings,
        )
        decision = replace(by_row, entropy=nodes.entropy[node_of])
        # Where the queue is told for the whole node, what all its rows have open is in it.
        seen = replace(
            of_rows,
            in_flight=np.where(engines.told, of_rows.in_flight, of_nodes.in_flight[node_of]),
            in_flight_known=of_nodes.in_flight_known[node_of],
        )
    speed = relative_speed(speeds, request, constants.capacity)
    factor, health = decision.state.factor, decision.health
    return ByModel(
        rows,
        decision,
        of_rows,
        speed,
        capacity(rows.nodes, speed, health, factor, overrides),
        costs(speeds, request, decision.telemetry, seen, factor * health),
    )
