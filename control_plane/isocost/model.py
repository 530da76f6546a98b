"""The types that every stage shares: nodes, signals and samples. Frozen, without behaviour."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field

#: Agents report every 200 ms; five missed reports are more than jitter: what they told is stale.
SAMPLE_FRESH_S = 1.0


class SignalState(enum.IntEnum):
    """What is known of a signal. The numbers are those of isocost.v1.SignalState."""

    ABSENT = 0
    MEASURED = 1
    STALE = 2
    UNSUPPORTED = 3


@dataclass(frozen=True, slots=True)
class Signal:
    """A number that knows whether it is one. ``value`` means nothing unless measured or stale."""

    state: SignalState
    value: float = 0.0
    age_s: float = 0.0

    @property
    def known(self) -> bool:
        return self.state in (SignalState.MEASURED, SignalState.STALE)


ABSENT = Signal(SignalState.ABSENT)
UNSUPPORTED = Signal(SignalState.UNSUPPORTED)


def measured(value: float, age_s: float = 0.0) -> Signal:
    return Signal(SignalState.MEASURED, value, age_s)


@dataclass(frozen=True, slots=True)
class Model:
    """A model that a node serves; ``weight_bytes`` is the size of its weights at 16 bits.
    ``adapters`` are LoRA adapters that are loaded on it, asked for by their own names.
    """

    name: str
    aliases: tuple[str, ...] = ()
    weight_bits: int = 16
    weight_bytes: int = 0
    kv_bytes_per_token: int = 0
    max_length_tokens: int = 0
    adapters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One inference unit (IU): one engine instance with its GPUs.

    ``instance_id`` is name@start-epoch: a restarted engine is another node.
    ``address`` is ip:port as Envoy prints it. Its length class: it is meant for prompts of
    min_input_tokens <= tokens < max_input_tokens; 0 = no bound.
    """

    name: str
    instance_id: str
    address: str
    rack: str
    host: str
    gpu_kind: str = ""
    gpu_count: int = 1
    models: tuple[Model, ...] = ()
    min_input_tokens: int = 0
    max_input_tokens: int = 0

    @property
    def id(self) -> int:
        return node_id(self.instance_id)


#: Unix seconds have ten digits; what has more than this is no start.
MAX_EPOCH_DIGITS = 12


def node_id(instance_id: str) -> int:
    """The 64-bit identity of an instance: the same in every control plane, never reused."""
    return int.from_bytes(hashlib.blake2b(instance_id.encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Xid:
    """An Xid that a GPU told of in the last ten minutes: how often, and when last (monotonic)."""

    number: int
    count: int
    last_s: float


@dataclass(frozen=True, slots=True)
class HealthSignals:
    """What tells whether a GPU is well.

    The age of a stale signal is as of the reading; measured ones have none of their own.
    ``ecc_*`` are counts since the driver was loaded, ``row_remap_*`` are 0 or 1,
    ``nvlink_recoveries_per_minute`` has replays and recoveries, ``clocks_event_reasons`` is NVML's
    bit mask.
    """

    pcie_generation: Signal = ABSENT
    pcie_generation_max: Signal = ABSENT
    pcie_width: Signal = ABSENT
    pcie_width_max: Signal = ABSENT
    pcie_replays_per_minute: Signal = ABSENT
    nvlink_crc_errors_per_minute: Signal = ABSENT
    nvlink_recoveries_per_minute: Signal = ABSENT
    ecc_corrected: Signal = ABSENT
    ecc_uncorrected: Signal = ABSENT
    row_remap_pending: Signal = ABSENT
    row_remap_failed: Signal = ABSENT
    temperature_celsius: Signal = ABSENT
    clocks_event_reasons: Signal = ABSENT
    compute_processes: Signal = ABSENT
    xids: tuple[Xid, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment. ``vram_free_bytes`` is NVML's figure.

    ``lost``: it fell off the bus, must be reset, or was there and is not any more. ``health`` was
    read ``health_age_s`` before; None: not yet, or not by a source that tells it.
    """

    uuid: str
    vram_total_bytes: Signal = ABSENT
    vram_free_bytes: Signal = ABSENT
    gpu_utilisation: Signal = ABSENT
    pcie_bytes_per_s: Signal = ABSENT
    nvlink_active_fraction: Signal = ABSENT
    lost: bool = False
    health: HealthSignals | None = None
    health_age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class EngineSample:
    """What the engine's metrics page said. ``kv_pool_tokens`` is num_gpu_blocks * block_size.

    ``steps_total`` is for engines whose tokens are counted only when a request ends: it moves while
    they work, and is unsupported where nothing does. Absent: the tokens move while they work.
    """

    running: Signal = ABSENT
    waiting: Signal = ABSENT
    kv_usage: Signal = ABSENT
    kv_pool_tokens: Signal = ABSENT
    prompt_tokens_total: Signal = ABSENT
    generation_tokens_total: Signal = ABSENT
    steps_total: Signal = ABSENT


@dataclass(frozen=True, slots=True)
class NodeSample:
    """One node's telemetry: who it is, whether its engine answers, and its signals.

    ``clock_offset_s`` is its clock less its agent's: 0 where both are one machine's.
    ``by_model``: what the engine's page says of each model, by its names for them, if it tells of
    several. ``cuda_handles`` are open files of the engine's processes on NVIDIA's devices;
    ``cuda_handles_dropped``: a process that lives has lost half of them. ``taken_s`` is by the
    agent's monotonic clock, which Xids are told in too. ``kv_cache_age_s`` is the mean age of the
    running requests' KV caches by the node's own clock. ``engine_silent``: not ``engine_up``, but
    its page fails in other ways than by nobody being there.
    """

    node: Node
    engine_up: bool
    gpus: tuple[GpuSample, ...] = ()
    engine: EngineSample = field(default_factory=EngineSample)
    net_bytes_per_s: Signal = ABSENT
    clock_offset_s: float = 0.0
    cuda_handles: Signal = ABSENT
    cuda_handles_dropped: bool = False
    by_model: tuple[tuple[str, EngineSample], ...] = ()
    taken_s: float = 0.0
    kv_cache_age_s: Signal = UNSUPPORTED
    engine_silent: bool = False


class NodeState(enum.IntEnum):
    """A node's state. The numbers are those of isocost.v1.NodeState."""

    WARMING = 1
    SERVING = 2
    SUSPECT = 3
    DRAINING = 4
    EJECTED = 5
    LOST = 6

    @property
    def eligible(self) -> bool:
        return self in (NodeState.WARMING, NodeState.SERVING, NodeState.SUSPECT)
