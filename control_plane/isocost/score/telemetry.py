"""The telemetry of the fleet as columns, one row per node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    GpuSample,
    Node,
    NodeSample,
    Signal,
    SignalState,
    measured,
)
from isocost.score.columns import Column, column, combine, derived

#: Agents report every 200 ms; five missed reports are more than jitter.
FRESH_S = 1.0


@dataclass(frozen=True)
class FleetTelemetry:
    """Columns of n nodes. Memory in bytes over all GPUs of the node, ratios in [0,1]."""

    vram_total_bytes: Column
    vram_free_bytes: Column
    pcie_bytes_per_s: Column
    nvlink_active_fraction: Column
    kv_usage: Column
    kv_pool_bytes: Column
    running: Column
    waiting: Column
    net_bytes_per_s: Column


def fleet_telemetry(
    nodes: Sequence[Node], samples: Sequence[NodeSample | None], ages_s: Sequence[float]
) -> FleetTelemetry:
    """Columns from the latest sample of each node and the time since it arrived.

    A node without a sample has every signal absent; a sample older than ``FRESH_S`` makes every
    signal in it stale.
    """

    def rows(read: Callable[[NodeSample], Signal]) -> Column:
        return column(
            [
                ABSENT if sample is None else _aged(read(sample), age_s)
                for sample, age_s in zip(samples, ages_s, strict=True)
            ]
        )

    def gpus(read: Callable[[GpuSample], Signal], how: str) -> Column:
        return rows(lambda sample: _over_gpus(sample, read, how))

    kv_bytes = [
        max((model.kv_bytes_per_token for model in node.models), default=0) for node in nodes
    ]
    pool = rows(lambda sample: sample.engine.kv_pool_tokens)
    kv_size = column([measured(size) if size else UNSUPPORTED for size in kv_bytes])
    return FleetTelemetry(
        vram_total_bytes=gpus(lambda gpu: gpu.vram_total_bytes, "sum"),
        vram_free_bytes=gpus(lambda gpu: gpu.vram_free_bytes, "sum"),
        pcie_bytes_per_s=gpus(lambda gpu: gpu.pcie_bytes_per_s, "max"),
        nvlink_active_fraction=gpus(lambda gpu: gpu.nvlink_active_fraction, "mean"),
        kv_usage=rows(lambda sample: sample.engine.kv_usage),
        kv_pool_bytes=derived(pool.value * kv_size.value, pool, kv_size),
        running=rows(lambda sample: sample.engine.running),
        waiting=rows(lambda sample: sample.engine.waiting),
        net_bytes_per_s=rows(lambda sample: sample.net_bytes_per_s),
    )


def _over_gpus(sample: NodeSample, read: Callable[[GpuSample], Signal], how: str) -> Signal:
    if len(sample.gpus) == 1:
        return read(sample.gpus[0])
    return combine((read(gpu) for gpu in sample.gpus), how) if sample.gpus else ABSENT


def _aged(signal: Signal, age_s: float) -> Signal:
    if not signal.known or age_s <= FRESH_S:
        return signal
    return replace(signal, state=SignalState.STALE, age_s=signal.age_s + age_s)
