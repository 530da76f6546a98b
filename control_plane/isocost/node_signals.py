"""Every signal of a node with its state and age, as plain data: for pages and commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from isocost.model import SAMPLE_FRESH_S, GpuSample, NodeSample, Signal, SignalState


def node_signals(sample: NodeSample, age_s: float) -> dict[str, object]:
    """The signals of a sample that arrived ``age_s`` ago. Where nothing is known there is no value:
    ``{"state": "absent"}``. A GPU whose health was not read yet has null for it.
    """
    return {
        "engine_up": sample.engine_up,
        "engine_silent": sample.engine_silent,
        "age_s": age_s,
        "engine": _signals(sample.engine, age_s),
        **_signals(sample, age_s),
        "cuda_handles_dropped": sample.cuda_handles_dropped,
        "gpus": [_gpu(gpu, sample, age_s) for gpu in sample.gpus],
    }


def _gpu(gpu: GpuSample, sample: NodeSample, age_s: float) -> dict[str, object]:
    health = None
    if gpu.health is not None:
        health = {
            "age_s": gpu.health_age_s + age_s,
            **_signals(gpu.health, age_s, gpu.health_age_s),
            "xids": [
                {
                    "xid": xid.number,
                    "count": xid.count,
                    "age_s": max(sample.taken_s - xid.last_s, 0.0) + age_s,
                }
                for xid in gpu.health.xids
            ],
        }
    return {"uuid": gpu.uuid, "lost": gpu.lost, **_signals(gpu, age_s), "health": health}


def _signals(holder: object, arrived_s: float, read_s: float = 0.0) -> dict[str, object]:
    return {name: _signal(signal, arrived_s, read_s) for name, signal in _fields(holder)}


def _fields(holder: object) -> Iterator[tuple[str, Signal]]:
    for field in dataclasses.fields(holder):  # type: ignore[arg-type]
        value = getattr(holder, field.name)
        if isinstance(value, Signal):
            yield field.name, value


def _signal(signal: Signal, arrived_s: float, read_s: float) -> Mapping[str, object]:
    """``arrived_s``: since the sample arrived; ``read_s``: its age then."""
    if not signal.known:
        return {"state": signal.state.name.lower()}
    fresh = signal.state is SignalState.MEASURED and arrived_s <= SAMPLE_FRESH_S
    return {
        "state": "measured" if fresh else "stale",
        "value": signal.value,
        "age_s": signal.age_s + read_s + arrived_s,
    }
