from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATE_UNSPECIFIED: _ClassVar[NodeState]
    NODE_STATE_WARMING: _ClassVar[NodeState]
    NODE_STATE_SERVING: _ClassVar[NodeState]
    NODE_STATE_SUSPECT: _ClassVar[NodeState]
    NODE_STATE_DRAINING: _ClassVar[NodeState]
    NODE_STATE_EJECTED: _ClassVar[NodeState]
    NODE_STATE_LOST: _ClassVar[NodeState]
NODE_STATE_UNSPECIFIED: NodeState
NODE_STATE_WARMING: NodeState
NODE_STATE_SERVING: NodeState
NODE_STATE_SUSPECT: NodeState
NODE_STATE_DRAINING: NodeState
NODE_STATE_EJECTED: NodeState
NODE_STATE_LOST: NodeState

class Seen(_message.Message):
    __slots__ = ("incarnation", "sequence", "share")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    sequence: int
    share: float
    def __init__(self, incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., share: _Optional[float] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("node_id", "blocks")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    blocks: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node_id: _Optional[int] = ..., blocks: _Optional[_Iterable[int]] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("version", "roster_version", "built_at_unix_ms", "weight", "entropy", "state", "capacity", "pending_tokens", "open", "kv_tokens", "token_s", "request_s", "extra_s", "kv_capacity_tokens", "seen", "placements")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROSTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    BUILT_AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ENTROPY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    PENDING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    KV_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_S_FIELD_NUMBER: _ClassVar[int]
    REQUEST_S_FIELD_NUMBER: _ClassVar[int]
    EXTRA_S_FIELD_NUMBER: _ClassVar[int]
    KV_CAPACITY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    version: int
    roster_version: int
    built_at_unix_ms: int
    weight: _containers.RepeatedScalarFieldContainer[float]
    entropy: _containers.RepeatedScalarFieldContainer[float]
    state: bytes
    capacity: _containers.RepeatedScalarFieldContainer[float]
    pending_tokens: _containers.RepeatedScalarFieldContainer[int]
    open: _containers.RepeatedScalarFieldContainer[int]
    kv_tokens: _containers.RepeatedScalarFieldContainer[int]
    token_s: _containers.RepeatedScalarFieldContainer[float]
    request_s: _containers.RepeatedScalarFieldContainer[float]
    extra_s: _containers.RepeatedScalarFieldContainer[float]
    kv_capacity_tokens: _containers.RepeatedScalarFieldContainer[float]
    seen: _containers.RepeatedCompositeFieldContainer[Seen]
    placements: _containers.RepeatedCompositeFieldContainer[Placement]
    def __init__(self, version: _Optional[int] = ..., roster_version: _Optional[int] = ..., built_at_unix_ms: _Optional[int] = ..., weight: _Optional[_Iterable[float]] = ..., entropy: _Optional[_Iterable[float]] = ..., state: _Optional[bytes] = ..., capacity: _Optional[_Iterable[float]] = ..., pending_tokens: _Optional[_Iterable[int]] = ..., open: _Optional[_Iterable[int]] = ..., kv_tokens: _Optional[_Iterable[int]] = ..., token_s: _Optional[_Iterable[float]] = ..., request_s: _Optional[_Iterable[float]] = ..., extra_s: _Optional[_Iterable[float]] = ..., kv_capacity_tokens: _Optional[_Iterable[float]] = ..., seen: _Optional[_Iterable[_Union[Seen, _Mapping]]] = ..., placements: _Optional[_Iterable[_Union[Placement, _Mapping]]] = ...) -> None: ...
