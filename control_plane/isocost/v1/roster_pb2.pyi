from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Model(_message.Message):
    __slots__ = ("name", "aliases", "weight_bits", "weight_bytes", "kv_bytes_per_token", "max_length_tokens", "adapters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_BITS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    KV_BYTES_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_LENGTH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    aliases: _containers.RepeatedScalarFieldContainer[str]
    weight_bits: int
    weight_bytes: int
    kv_bytes_per_token: int
    max_length_tokens: int
    adapters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., weight_bits: _Optional[int] = ..., weight_bytes: _Optional[int] = ..., kv_bytes_per_token: _Optional[int] = ..., max_length_tokens: _Optional[int] = ..., adapters: _Optional[_Iterable[str]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("id", "name", "instance_id", "address", "rack", "host", "gpu_kind", "gpu_count", "models", "min_input_tokens", "max_input_tokens")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RACK_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    GPU_KIND_FIELD_NUMBER: _ClassVar[int]
    GPU_COUNT_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    MIN_INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    instance_id: str
    address: str
    rack: str
    host: str
    gpu_kind: str
    gpu_count: int
    models: _containers.RepeatedCompositeFieldContainer[Model]
    min_input_tokens: int
    max_input_tokens: int
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., instance_id: _Optional[str] = ..., address: _Optional[str] = ..., rack: _Optional[str] = ..., host: _Optional[str] = ..., gpu_kind: _Optional[str] = ..., gpu_count: _Optional[int] = ..., models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ..., min_input_tokens: _Optional[int] = ..., max_input_tokens: _Optional[int] = ...) -> None: ...

class Roster(_message.Message):
    __slots__ = ("version", "nodes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    version: int
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    def __init__(self, version: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ...) -> None: ...
