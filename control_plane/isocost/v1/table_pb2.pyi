from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

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

class Table(_message.Message):
    __slots__ = ("version", "roster_version", "built_at_unix_ms", "weight", "entropy", "state")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROSTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    BUILT_AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ENTROPY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    version: int
    roster_version: int
    built_at_unix_ms: int
    weight: _containers.RepeatedScalarFieldContainer[float]
    entropy: _containers.RepeatedScalarFieldContainer[float]
    state: bytes
    def __init__(self, version: _Optional[int] = ..., roster_version: _Optional[int] = ..., built_at_unix_ms: _Optional[int] = ..., weight: _Optional[_Iterable[float]] = ..., entropy: _Optional[_Iterable[float]] = ..., state: _Optional[bytes] = ...) -> None: ...
