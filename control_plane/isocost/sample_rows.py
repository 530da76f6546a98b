"""The numbers of a sample as rows of bytes, as isocost.v1.TelemetryReport carries them.

Agents write them without numpy, which is a third of their memory; the control plane reads those of
the fleet at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from struct import Struct

from isocost.model import EngineSample, GpuSample, NodeSample, Signal

#: The signals of a node and of each of its GPUs, in the order of their rows.
ENGINE_SIGNALS = (
    "running",
    "waiting",
    "kv_usage",
    "kv_pool_tokens",
    "prompt_tokens_total",
    "generation_tokens_total",
    "steps_total",
)
NODE_SIGNALS = ("net_bytes_per_s", "kv_cache_age_s", "cuda_handles")
GPU_SIGNALS = (
    "vram_total_bytes",
    "vram_free_bytes",
    "pcie_bytes_per_s",
    "nvlink_active_fraction",
    "gpu_utilisation",
)

#: The flags of a node.
UP, SILENT, HANDLES_DROPPED = 1, 2, 4

_SIGNAL = "BId"
ENGINE_ROW = Struct("<" + _SIGNAL * len(ENGINE_SIGNALS))
NODE_ROW = Struct("<" + _SIGNAL * (len(ENGINE_SIGNALS) + len(NODE_SIGNALS)) + "Bq")
GPU_ROW = Struct("<" + _SIGNAL * len(GPU_SIGNALS) + "BI")
SIGNAL_BYTES = Struct("<" + _SIGNAL).size

#: An age that is longer tells nothing more.
_MOST_MS = 2**32 - 1
#: A clock that is wrong by more tells nothing more.
_MOST_OFFSET_MS = 2**62

_engine_signals = attrgetter(*ENGINE_SIGNALS)
_node_signals = attrgetter(*NODE_SIGNALS)
_gpu_signals = attrgetter(*GPU_SIGNALS)


def node_row(sample: NodeSample) -> bytes:
    flags = UP * sample.engine_up | SILENT * sample.engine_silent
    flags |= HANDLES_DROPPED * sample.cuda_handles_dropped
    offset_ms = round(sample.clock_offset_s * 1e3)
    return NODE_ROW.pack(
        *_parts((*_engine_signals(sample.engine), *_node_signals(sample))),
        flags,
        min(max(offset_ms, -_MOST_OFFSET_MS), _MOST_OFFSET_MS),
    )


def gpu_row(gpu: GpuSample) -> bytes:
    return GPU_ROW.pack(*_parts(_gpu_signals(gpu)), gpu.lost, _ms(gpu.health_age_s))


def engine_row(engine: EngineSample) -> bytes:
    return ENGINE_ROW.pack(*_parts(_engine_signals(engine)))


def _parts(signals: Iterable[Signal]) -> Iterable[float]:
    """State, age in ms and value of each; 0 where there is none."""
    return chain.from_iterable(
        (signal.state, _ms(signal.age_s), signal.value) if signal.known else (signal.state, 0, 0.0)
        for signal in signals
    )


def _ms(age_s: float) -> int:
    age_ms = age_s * 1e3
    return max(round(age_ms), 0) if age_ms < _MOST_MS else _MOST_MS
