"""The telemetry of the fleet as columns, one row per node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isocost.model import (
    ABSENT,
    SAMPLE_FRESH_S,
    EngineSample,
    GpuSample,
    Node,
    NodeSample,
    Signal,
    SignalState,
)
from isocost.score.columns import Column, Floats, column, combine, derived


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


def fleet_telemetry(
    kv_size: Column, samples: Sequence[NodeSample | None], ages_s: Sequence[float]
) -> FleetTelemetry:
    """Columns from the latest sample of each node and the time since it arrived.

    A node without a sample has every signal absent; a sample older than ``SAMPLE_FRESH_S`` makes
    every signal in it stale. ``kv_size`` [n] is the KV bytes per token.
    """

    ages = np.array(ages_s, dtype=np.float64)

    def rows(read: Callable[[NodeSample], Signal]) -> Column:
        signals = [ABSENT if sample is None else read(sample) for sample in samples]
        return _aged(column(signals), ages)

    def gpus(read: Callable[[GpuSample], Signal], how: str) -> Column:
        return rows(lambda sample: _over_gpus(sample, read, how))

    pool = rows(lambda sample: sample.engine.kv_pool_tokens)
    return FleetTelemetry(
        vram_total_bytes=gpus(lambda gpu: gpu.vram_total_bytes, "sum"),
        vram_free_bytes=gpus(lambda gpu: gpu.vram_free_bytes, "sum"),
        pcie_bytes_per_s=gpus(lambda gpu: gpu.pcie_bytes_per_s, "max"),
        nvlink_active_fraction=gpus(lambda gpu: gpu.nvlink_active_fraction, "mean"),
        kv_usage=rows(lambda sample: sample.engine.kv_usage),
        kv_pool_bytes=derived(pool.value * kv_size.value, pool, kv_size),
        kv_pool_tokens=pool,
        running=rows(lambda sample: sample.engine.running),
        waiting=rows(lambda sample: sample.engine.waiting),
        net_bytes_per_s=rows(lambda sample: sample.net_bytes_per_s),
        work=rows(lambda sample: work_done(sample.engine)),
        kv_cache_age_s=rows(lambda sample: sample.kv_cache_age_s),
    )


def work_done(engine: EngineSample) -> Signal:
    """Tokens, or steps where tokens move only when a request ends: it moves while the engine works,
    and is unsupported where nothing does.
    """
    prompt, generation = engine.prompt_tokens_total, engine.generation_tokens_total
    if engine.steps_total.state != SignalState.ABSENT:
        return engine.steps_total
    if generation.known and prompt.known:
        return replace(generation, value=generation.value + prompt.value)
    return generation if generation.known else prompt


def engine_idle(sample: NodeSample) -> bool:
    """Does the engine say that it works on nothing? One that is down works on nothing; what an
    engine never tells is left to the gateways, but what is missing or old is not idle.
    """
    if not sample.engine_up:
        return True
    return all(
        signal.state == SignalState.UNSUPPORTED
        or (signal.state == SignalState.MEASURED and signal.value == 0.0)
        for signal in (sample.engine.running, sample.engine.waiting)
    )


def _over_gpus(sample: NodeSample, read: Callable[[GpuSample], Signal], how: str) -> Signal:
    if len(sample.gpus) == 1:
        return read(sample.gpus[0])
    return combine((read(gpu) for gpu in sample.gpus), how) if sample.gpus else ABSENT


def kv_bytes_per_token(nodes: Sequence[Node]) -> Column:
    size = np.array(
        [max((model.kv_bytes_per_token for model in node.models), default=0) for node in nodes],
        dtype=np.float64,
    )
    state = np.where(size > 0, SignalState.MEASURED, SignalState.UNSUPPORTED).astype(np.int8)
    return Column(size, state, np.zeros_like(size))


def _aged(source: Column, ages_s: Floats) -> Column:
    """What is known of an old sample is stale, and that much older."""
    old = source.known & (ages_s > SAMPLE_FRESH_S)
    if not old.any():
        return source
    state = np.where(old, SignalState.STALE, source.state).astype(np.int8)
    return Column(source.value, state, np.where(old, source.age_s + ages_s, source.age_s))
