"""The engines of a node's models, as far as its page tells them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isocost.model import Node, SignalState
from isocost.score.columns import Column, Floats, derived
from isocost.score.fleet_samples import FleetSamples
from isocost.score.model_rows import ModelRows
from isocost.score.rows import engine_columns
from isocost.score.telemetry import FleetTelemetry


@dataclass(frozen=True)
class ModelEngines:
    """Of m rows, each [m]. ``told``: the page tells this model's engine; all columns are absent
    where it does not.
    """

    node_of: NDArray[np.intp]
    told: NDArray[np.bool_]
    running: Column
    waiting: Column
    kv_usage: Column
    kv_pool_tokens: Column
    kv_pool_bytes: Column

    def on_nodes(self, nodes: FleetTelemetry) -> FleetTelemetry:
        """Of n nodes: tokens of unlike sizes are in their KV caches, so the bytes of these add up,
        and those that are in use; where anything of them is not known they stay as they are.
        """
        count = len(nodes.running.value)
        known = self.told & self.kv_pool_bytes.known & self.kv_usage.known
        whole = np.ones(count, dtype=np.bool_)
        np.logical_and.at(whole, self.node_of, known)
        size, used = np.zeros(count), np.zeros(count)
        np.add.at(size, self.node_of, self.kv_pool_bytes.value)
        np.add.at(used, self.node_of, self.kv_pool_bytes.value * self.kv_usage.value)
        whole &= (size > 0.0) & nodes.kv_pool_bytes.known & nodes.kv_usage.known
        usage = used / np.where(whole, size, 1.0)
        return replace(
            nodes,
            kv_pool_bytes=_value(nodes.kv_pool_bytes, whole, size),
            kv_usage=_value(nodes.kv_usage, whole, usage),
        )

    def on_rows(self, nodes: FleetTelemetry) -> FleetTelemetry:
        """Of the m rows of n nodes; what is not believed of a node is not of its engines either."""
        rows = nodes.of(self.node_of)

        def own(node: Column, engine: Column) -> Column:
            takes = self.told & node.known
            # The guards take a page that stands still for stale: so are all engines on it.
            old = takes & engine.known & (node.state == SignalState.STALE)
            state = np.where(takes, engine.state, node.state)
            age_s = np.where(takes, engine.age_s, node.age_s)
            return Column(
                np.where(takes, engine.value, node.value),
                np.where(old, SignalState.STALE, state).astype(np.int8),
                np.where(old, np.maximum(engine.age_s, node.age_s), age_s),
            )

        return replace(
            rows,
            running=own(rows.running, self.running),
            waiting=own(rows.waiting, self.waiting),
            kv_usage=own(rows.kv_usage, self.kv_usage),
            kv_pool_tokens=own(rows.kv_pool_tokens, self.kv_pool_tokens),
            kv_pool_bytes=own(rows.kv_pool_bytes, self.kv_pool_bytes),
        )


def model_engines(
    rows: ModelRows,
    kv_size: Column,
    samples: FleetSamples,
    ages_s: Sequence[float] | Floats,
) -> ModelEngines | None:
    """``kv_size`` [m] is the KV bytes per token; samples and their ages are of the n nodes. None:
    each node is one row.
    """
    if not rows.differ:
        return None
    ages = np.asarray(ages_s, dtype=np.float64)
    found = [
        _engine(samples.models(place), row)
        for row, place in zip(rows.nodes, rows.node_of.tolist(), strict=True)
    ]
    columns = engine_columns(found, ages[rows.node_of])
    pool = columns["kv_pool_tokens"]
    return ModelEngines(
        rows.node_of,
        np.array([engine is not None for engine in found], dtype=np.bool_),
        columns["running"],
        columns["waiting"],
        columns["kv_usage"],
        pool,
        derived(pool.value * kv_size.value, pool, kv_size),
    )


def _engine(told: Sequence[tuple[str, bytes]], row: Node) -> bytes | None:
    """The row of its engine."""
    if not told or not row.models:
        return None
    model = row.models[0]
    return next((engine for name, engine in told if name in (model.name, *model.aliases)), None)


def _value(column: Column, where: NDArray[np.bool_], value: NDArray[np.float64]) -> Column:
    return replace(column, value=np.where(where, value, column.value))
