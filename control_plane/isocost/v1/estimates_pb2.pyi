from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ModelEstimates(_message.Message):
    __slots__ = ("name", "output_tokens", "token_coefficients")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COEFFICIENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    output_tokens: float
    token_coefficients: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, name: _Optional[str] = ..., output_tokens: _Optional[float] = ..., token_coefficients: _Optional[_Iterable[float]] = ...) -> None: ...

class Estimates(_message.Message):
    __slots__ = ("version", "user_output", "models", "output_tokens")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    USER_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    version: int
    user_output: bytes
    models: _containers.RepeatedCompositeFieldContainer[ModelEstimates]
    output_tokens: float
    def __init__(self, version: _Optional[int] = ..., user_output: _Optional[bytes] = ..., models: _Optional[_Iterable[_Union[ModelEstimates, _Mapping]]] = ..., output_tokens: _Optional[float] = ...) -> None: ...
