from isocost.v1 import roster_pb2 as _roster_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SignalState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIGNAL_STATE_ABSENT: _ClassVar[SignalState]
    SIGNAL_STATE_MEASURED: _ClassVar[SignalState]
    SIGNAL_STATE_STALE: _ClassVar[SignalState]
    SIGNAL_STATE_UNSUPPORTED: _ClassVar[SignalState]
SIGNAL_STATE_ABSENT: SignalState
SIGNAL_STATE_MEASURED: SignalState
SIGNAL_STATE_STALE: SignalState
SIGNAL_STATE_UNSUPPORTED: SignalState

class Signal(_message.Message):
    __slots__ = ("state", "value", "age_ms")
    STATE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    state: SignalState
    value: float
    age_ms: int
    def __init__(self, state: _Optional[_Union[SignalState, str]] = ..., value: _Optional[float] = ..., age_ms: _Optional[int] = ...) -> None: ...

class Xid(_message.Message):
    __slots__ = ("number", "count", "last_monotonic_ms")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    number: int
    count: int
    last_monotonic_ms: int
    def __init__(self, number: _Optional[int] = ..., count: _Optional[int] = ..., last_monotonic_ms: _Optional[int] = ...) -> None: ...

class HealthSignals(_message.Message):
    __slots__ = ("pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max", "pcie_replays_per_minute", "nvlink_crc_errors_per_minute", "nvlink_recoveries_per_minute", "ecc_corrected", "ecc_uncorrected", "row_remap_pending", "row_remap_failed", "temperature_celsius", "clocks_event_reasons", "compute_processes", "xids")
    PCIE_GENERATION_FIELD_NUMBER: _ClassVar[int]
    PCIE_GENERATION_MAX_FIELD_NUMBER: _ClassVar[int]
    PCIE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    PCIE_WIDTH_MAX_FIELD_NUMBER: _ClassVar[int]
    PCIE_REPLAYS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    NVLINK_CRC_ERRORS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    NVLINK_RECOVERIES_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    ECC_CORRECTED_FIELD_NUMBER: _ClassVar[int]
    ECC_UNCORRECTED_FIELD_NUMBER: _ClassVar[int]
    ROW_REMAP_PENDING_FIELD_NUMBER: _ClassVar[int]
    ROW_REMAP_FAILED_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_CELSIUS_FIELD_NUMBER: _ClassVar[int]
    CLOCKS_EVENT_REASONS_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_PROCESSES_FIELD_NUMBER: _ClassVar[int]
    XIDS_FIELD_NUMBER: _ClassVar[int]
    pcie_generation: Signal
    pcie_generation_max: Signal
    pcie_width: Signal
    pcie_width_max: Signal
    pcie_replays_per_minute: Signal
    nvlink_crc_errors_per_minute: Signal
    nvlink_recoveries_per_minute: Signal
    ecc_corrected: Signal
    ecc_uncorrected: Signal
    row_remap_pending: Signal
    row_remap_failed: Signal
    temperature_celsius: Signal
    clocks_event_reasons: Signal
    compute_processes: Signal
    xids: _containers.RepeatedCompositeFieldContainer[Xid]
    def __init__(self, pcie_generation: _Optional[_Union[Signal, _Mapping]] = ..., pcie_generation_max: _Optional[_Union[Signal, _Mapping]] = ..., pcie_width: _Optional[_Union[Signal, _Mapping]] = ..., pcie_width_max: _Optional[_Union[Signal, _Mapping]] = ..., pcie_replays_per_minute: _Optional[_Union[Signal, _Mapping]] = ..., nvlink_crc_errors_per_minute: _Optional[_Union[Signal, _Mapping]] = ..., nvlink_recoveries_per_minute: _Optional[_Union[Signal, _Mapping]] = ..., ecc_corrected: _Optional[_Union[Signal, _Mapping]] = ..., ecc_uncorrected: _Optional[_Union[Signal, _Mapping]] = ..., row_remap_pending: _Optional[_Union[Signal, _Mapping]] = ..., row_remap_failed: _Optional[_Union[Signal, _Mapping]] = ..., temperature_celsius: _Optional[_Union[Signal, _Mapping]] = ..., clocks_event_reasons: _Optional[_Union[Signal, _Mapping]] = ..., compute_processes: _Optional[_Union[Signal, _Mapping]] = ..., xids: _Optional[_Iterable[_Union[Xid, _Mapping]]] = ...) -> None: ...

class GpuSample(_message.Message):
    __slots__ = ("uuid", "vram_total_bytes", "vram_free_bytes", "gpu_utilisation", "pcie_bytes_per_s", "nvlink_active_fraction", "lost", "health", "health_age_ms")
    UUID_FIELD_NUMBER: _ClassVar[int]
    VRAM_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    VRAM_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GPU_UTILISATION_FIELD_NUMBER: _ClassVar[int]
    PCIE_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    NVLINK_ACTIVE_FRACTION_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    HEALTH_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    vram_total_bytes: Signal
    vram_free_bytes: Signal
    gpu_utilisation: Signal
    pcie_bytes_per_s: Signal
    nvlink_active_fraction: Signal
    lost: bool
    health: bytes
    health_age_ms: int
    def __init__(self, uuid: _Optional[str] = ..., vram_total_bytes: _Optional[_Union[Signal, _Mapping]] = ..., vram_free_bytes: _Optional[_Union[Signal, _Mapping]] = ..., gpu_utilisation: _Optional[_Union[Signal, _Mapping]] = ..., pcie_bytes_per_s: _Optional[_Union[Signal, _Mapping]] = ..., nvlink_active_fraction: _Optional[_Union[Signal, _Mapping]] = ..., lost: _Optional[bool] = ..., health: _Optional[bytes] = ..., health_age_ms: _Optional[int] = ...) -> None: ...

class EngineSample(_message.Message):
    __slots__ = ("running", "waiting", "kv_usage", "kv_pool_tokens", "prompt_tokens_total", "generation_tokens_total", "steps_total")
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    KV_USAGE_FIELD_NUMBER: _ClassVar[int]
    KV_POOL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_TOKENS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    STEPS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    running: Signal
    waiting: Signal
    kv_usage: Signal
    kv_pool_tokens: Signal
    prompt_tokens_total: Signal
    generation_tokens_total: Signal
    steps_total: Signal
    def __init__(self, running: _Optional[_Union[Signal, _Mapping]] = ..., waiting: _Optional[_Union[Signal, _Mapping]] = ..., kv_usage: _Optional[_Union[Signal, _Mapping]] = ..., kv_pool_tokens: _Optional[_Union[Signal, _Mapping]] = ..., prompt_tokens_total: _Optional[_Union[Signal, _Mapping]] = ..., generation_tokens_total: _Optional[_Union[Signal, _Mapping]] = ..., steps_total: _Optional[_Union[Signal, _Mapping]] = ...) -> None: ...

class ModelEngine(_message.Message):
    __slots__ = ("model", "engine")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    model: str
    engine: EngineSample
    def __init__(self, model: _Optional[str] = ..., engine: _Optional[_Union[EngineSample, _Mapping]] = ...) -> None: ...

class NodeSample(_message.Message):
    __slots__ = ("node", "engine_up", "gpus", "engine", "net_bytes_per_s", "clock_offset_ms", "cuda_handles", "cuda_handles_dropped", "kv_cache_age_s", "engine_silent", "by_model")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_UP_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    NET_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_MS_FIELD_NUMBER: _ClassVar[int]
    CUDA_HANDLES_FIELD_NUMBER: _ClassVar[int]
    CUDA_HANDLES_DROPPED_FIELD_NUMBER: _ClassVar[int]
    KV_CACHE_AGE_S_FIELD_NUMBER: _ClassVar[int]
    ENGINE_SILENT_FIELD_NUMBER: _ClassVar[int]
    BY_MODEL_FIELD_NUMBER: _ClassVar[int]
    node: _roster_pb2.Node
    engine_up: bool
    gpus: _containers.RepeatedCompositeFieldContainer[GpuSample]
    engine: EngineSample
    net_bytes_per_s: Signal
    clock_offset_ms: int
    cuda_handles: Signal
    cuda_handles_dropped: bool
    kv_cache_age_s: Signal
    engine_silent: bool
    by_model: _containers.RepeatedCompositeFieldContainer[ModelEngine]
    def __init__(self, node: _Optional[_Union[_roster_pb2.Node, _Mapping]] = ..., engine_up: _Optional[bool] = ..., gpus: _Optional[_Iterable[_Union[GpuSample, _Mapping]]] = ..., engine: _Optional[_Union[EngineSample, _Mapping]] = ..., net_bytes_per_s: _Optional[_Union[Signal, _Mapping]] = ..., clock_offset_ms: _Optional[int] = ..., cuda_handles: _Optional[_Union[Signal, _Mapping]] = ..., cuda_handles_dropped: _Optional[bool] = ..., kv_cache_age_s: _Optional[_Union[Signal, _Mapping]] = ..., engine_silent: _Optional[bool] = ..., by_model: _Optional[_Iterable[_Union[ModelEngine, _Mapping]]] = ...) -> None: ...

class TelemetryReport(_message.Message):
    __slots__ = ("agent", "sequence", "wall_unix_ms", "monotonic_ms", "nodes")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WALL_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sequence: int
    wall_unix_ms: int
    monotonic_ms: int
    nodes: _containers.RepeatedCompositeFieldContainer[NodeSample]
    def __init__(self, agent: _Optional[str] = ..., sequence: _Optional[int] = ..., wall_unix_ms: _Optional[int] = ..., monotonic_ms: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[NodeSample, _Mapping]]] = ...) -> None: ...

class TelemetryAck(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
