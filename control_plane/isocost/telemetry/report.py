"""What an agent tells the control plane: samples as the messages of isocost.v1.

The way back is discovery.report: each side of the stream needs only its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import lru_cache

from isocost.model import EngineSample, GpuSample, HealthSignals, NodeSample, Signal, SignalState
from isocost.node_message import encode_node
from isocost.v1 import telemetry_pb2

_UNKNOWN = {
    state: telemetry_pb2.Signal(state=int(state))  # type: ignore[arg-type]
    for state in (SignalState.ABSENT, SignalState.UNSUPPORTED)
}
#: More than a machine has.
_GPUS = 256


def encode_report(
    agent: str,
    sequence: int,
    wall_unix_s: float,
    monotonic_s: float,
    samples: Iterable[NodeSample],
) -> telemetry_pb2.TelemetryReport:
    return telemetry_pb2.TelemetryReport(
        agent=agent,
        sequence=sequence,
        wall_unix_ms=round(wall_unix_s * 1e3),
        monotonic_ms=round(monotonic_s * 1e3),
        nodes=[encode_sample(sample) for sample in samples],
    )


def encode_sample(sample: NodeSample) -> telemetry_pb2.NodeSample:
    return telemetry_pb2.NodeSample(
        node=encode_node(sample.node),
        engine_up=sample.engine_up,
        engine_silent=sample.engine_silent,
        gpus=[_gpu(gpu) for gpu in sample.gpus],
        engine=_engine(sample.engine),
        net_bytes_per_s=encode_signal(sample.net_bytes_per_s),
        clock_offset_ms=round(sample.clock_offset_s * 1e3),
        cuda_handles=encode_signal(sample.cuda_handles),
        cuda_handles_dropped=sample.cuda_handles_dropped,
        kv_cache_age_s=encode_signal(sample.kv_cache_age_s),
        by_model=[
            telemetry_pb2.ModelEngine(model=model, engine=_engine(engine))
            for model, engine in sample.by_model
        ],
    )


def encode_signal(signal: Signal) -> telemetry_pb2.Signal:
    if not signal.known:
        return _UNKNOWN[signal.state]
    return telemetry_pb2.Signal(
        state=int(signal.state),  # type: ignore[arg-type]
        value=signal.value,
        age_ms=round(signal.age_s * 1e3),
    )


def _gpu(gpu: GpuSample) -> telemetry_pb2.GpuSample:
    return telemetry_pb2.GpuSample(
        uuid=gpu.uuid,
        vram_total_bytes=encode_signal(gpu.vram_total_bytes),
        vram_free_bytes=encode_signal(gpu.vram_free_bytes),
        gpu_utilisation=encode_signal(gpu.gpu_utilisation),
        pcie_bytes_per_s=encode_signal(gpu.pcie_bytes_per_s),
        nvlink_active_fraction=encode_signal(gpu.nvlink_active_fraction),
        lost=gpu.lost,
        health=b"" if gpu.health is None else _health(gpu.health),
        health_age_ms=round(gpu.health_age_s * 1e3),
    )


@lru_cache(_GPUS)
def _health(health: HealthSignals) -> bytes:
    """Remembered: it is mostly the same report after report."""
    signals = {
        field.name: encode_signal(getattr(health, field.name))
        for field in dataclasses.fields(health)
        if field.name != "xids"
    }
    xids = [
        telemetry_pb2.Xid(
            number=xid.number, count=xid.count, last_monotonic_ms=round(xid.last_s * 1e3)
        )
        for xid in health.xids
    ]
    return telemetry_pb2.HealthSignals(**signals, xids=xids).SerializeToString()


def _engine(engine: EngineSample) -> telemetry_pb2.EngineSample:
    return telemetry_pb2.EngineSample(
        running=encode_signal(engine.running),
        waiting=encode_signal(engine.waiting),
        kv_usage=encode_signal(engine.kv_usage),
        kv_pool_tokens=encode_signal(engine.kv_pool_tokens),
        prompt_tokens_total=encode_signal(engine.prompt_tokens_total),
        generation_tokens_total=encode_signal(engine.generation_tokens_total),
        steps_total=encode_signal(engine.steps_total),
    )
