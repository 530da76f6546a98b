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

class NodeEntry(_message.Message):
    __slots__ = ("node", "gpu_uuids")
    NODE_FIELD_NUMBER: _ClassVar[int]
    GPU_UUIDS_FIELD_NUMBER: _ClassVar[int]
    node: _roster_pb2.Node
    gpu_uuids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[_Union[_roster_pb2.Node, _Mapping]] = ..., gpu_uuids: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeList(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeEntry]
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeEntry, _Mapping]]] = ...) -> None: ...

class HealthList(_message.Message):
    __slots__ = ("gpus",)
    GPUS_FIELD_NUMBER: _ClassVar[int]
    gpus: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, gpus: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ModelEngine(_message.Message):
    __slots__ = ("node", "model", "row")
    NODE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    node: int
    model: str
    row: bytes
    def __init__(self, node: _Optional[int] = ..., model: _Optional[str] = ..., row: _Optional[bytes] = ...) -> None: ...

class TelemetryReport(_message.Message):
    __slots__ = ("agent", "sequence", "wall_unix_ms", "monotonic_ms", "nodes", "health", "node_rows", "gpu_rows", "by_model")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    WALL_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    MONOTONIC_MS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    NODE_ROWS_FIELD_NUMBER: _ClassVar[int]
    GPU_ROWS_FIELD_NUMBER: _ClassVar[int]
    BY_MODEL_FIELD_NUMBER: _ClassVar[int]
    agent: str
    sequence: int
    wall_unix_ms: int
    monotonic_ms: int
    nodes: bytes
    health: bytes
    node_rows: bytes
    gpu_rows: bytes
    by_model: _containers.RepeatedCompositeFieldContainer[ModelEngine]
    def __init__(self, agent: _Optional[str] = ..., sequence: _Optional[int] = ..., wall_unix_ms: _Optional[int] = ..., monotonic_ms: _Optional[int] = ..., nodes: _Optional[bytes] = ..., health: _Optional[bytes] = ..., node_rows: _Optional[bytes] = ..., gpu_rows: _Optional[bytes] = ..., by_model: _Optional[_Iterable[_Union[ModelEngine, _Mapping]]] = ...) -> None: ...

class TelemetryAck(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
