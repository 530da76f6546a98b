"""The telemetry of the fleet as columns, one row per node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from isocost.model import Node, NodeSample, SignalState
from isocost.score.columns import Column, Floats, derived
from isocost.score.fleet_samples import FleetSamples
from isocost.score.rows import node_columns


@dataclass(frozen=True)
class FleetTelemetry:
    """Columns of n nodes. Memory in bytes over all GPUs of the node, ratios in [0,1].

    ``work`` counts what the engine has done in tokens or steps, see ``work_done``;
    ``kv_cache_age_s`` is what the node tells itself, by its own clock.
    """

    vram_total_bytes: Column
    vram_free_bytes: Column
    pcie_bytes_per_s: Column
    nvlink_active_fraction: Column
    kv_usage: Column
    kv_pool_bytes: Column
    kv_pool_tokens: Column
    running: Column
    waiting: Column
    net_bytes_per_s: Column
    work: Column
    kv_cache_age_s: Column

    def of(self, rows: NDArray[np.intp]) -> FleetTelemetry:
        """The nodes in these places."""
        columns = {item.name: getattr(self, item.name).of(rows) for item in fields(self)}
        return FleetTelemetry(**columns)


def fleet_telemetry(
    kv_size: Column, samples: FleetSamples, ages_s: Sequence[float] | Floats
) -> FleetTelemetry:
    """Columns from the latest sample of each node and the time since it arrived.

    A node without a sample has every signal absent; a sample older than ``SAMPLE_FRESH_S`` makes
    every signal in it stale. ``kv_size`` [n] is the KV bytes per token.
    """

    columns = node_columns(samples, np.asarray(ages_s, dtype=np.float64))
    pool = columns["kv_pool_tokens"]
    return FleetTelemetry(
        vram_total_bytes=columns["vram_total_bytes"],
        vram_free_bytes=columns["vram_free_bytes"],
        pcie_bytes_per_s=columns["pcie_bytes_per_s"],
        nvlink_active_fraction=columns["nvlink_active_fraction"],
        kv_usage=columns["kv_usage"],
        kv_pool_bytes=derived(pool.value * kv_size.value, pool, kv_size),
        kv_pool_tokens=pool,
        running=columns["running"],
        waiting=columns["waiting"],
        net_bytes_per_s=columns["net_bytes_per_s"],
        work=work_done(
            columns["prompt_tokens_total"],
            columns["generation_tokens_total"],
            columns["steps_total"],
        ),
        kv_cache_age_s=columns["kv_cache_age_s"],
    )


def work_done(prompt: Column, generation: Column, steps: Column) -> Column:
    """Tokens, or steps where tokens move only when a request ends: it moves while the engine works,
    and is unsupported where nothing does.
    """
    both = replace(generation, value=generation.value + prompt.value)
    tokens = _where(
        generation.known & prompt.known, both, _where(generation.known, generation, prompt)
    )
    return _where(steps.state != SignalState.ABSENT, steps, tokens)


def _where(condition: NDArray[np.bool_], one: Column, other: Column) -> Column:
    return Column(
        np.where(condition, one.value, other.value),
        np.where(condition, one.state, other.state),
        np.where(condition, one.age_s, other.age_s),
    )


def engine_idle(sample: NodeSample) -> bool:
    """Does the engine say that it works on nothing? One that is down works on nothing; what an
    engine never tells is left to the gateways, but what is missing or old is not idle.
    """
    if not sample.engine_up:
        return not sample.engine_silent
    return all(
        signal.state == SignalState.UNSUPPORTED
        or (signal.state == SignalState.MEASURED and signal.value == 0.0)
        for signal in (sample.engine.running, sample.engine.waiting)
    )


def kv_bytes_per_token(nodes: Sequence[Node]) -> Column:
    size = np.array(
        [max((model.kv_bytes_per_token for model in node.models), default=0) for node in nodes],
        dtype=np.float64,
    )
    state = np.where(size > 0, SignalState.MEASURED, SignalState.UNSUPPORTED).astype(np.int8)
    return Column(size, state, np.zeros_like(size))
