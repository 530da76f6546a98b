from isocost.v1 import table_pb2 as _table_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Answer(_message.Message):
    __slots__ = ("user_bucket", "model", "output_tokens")
    USER_BUCKET_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    user_bucket: int
    model: str
    output_tokens: int
    def __init__(self, user_bucket: _Optional[int] = ..., model: _Optional[str] = ..., output_tokens: _Optional[int] = ...) -> None: ...

class ObservationBatch(_message.Message):
    __slots__ = ("envoy", "incarnation", "sequence", "taken_at_unix_ms", "table_version", "picked", "fallback_no_table", "fallback_stale_table", "fallback_no_eligible", "fallback_host_failure", "stale_choices", "leaving", "placements", "answers", "open", "news")
    ENVOY_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    TABLE_VERSION_FIELD_NUMBER: _ClassVar[int]
    PICKED_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_NO_TABLE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_STALE_TABLE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_NO_ELIGIBLE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_HOST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    STALE_CHOICES_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    NEWS_FIELD_NUMBER: _ClassVar[int]
    envoy: str
    incarnation: int
    sequence: int
    taken_at_unix_ms: int
    table_version: int
    picked: int
    fallback_no_table: int
    fallback_stale_table: int
    fallback_no_eligible: int
    fallback_host_failure: int
    stale_choices: int
    leaving: bool
    placements: _containers.RepeatedCompositeFieldContainer[_table_pb2.Placement]
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    open: bytes
    news: bytes
    def __init__(self, envoy: _Optional[str] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., taken_at_unix_ms: _Optional[int] = ..., table_version: _Optional[int] = ..., picked: _Optional[int] = ..., fallback_no_table: _Optional[int] = ..., fallback_stale_table: _Optional[int] = ..., fallback_no_eligible: _Optional[int] = ..., fallback_host_failure: _Optional[int] = ..., stale_choices: _Optional[int] = ..., leaving: _Optional[bool] = ..., placements: _Optional[_Iterable[_Union[_table_pb2.Placement, _Mapping]]] = ..., answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ..., open: _Optional[bytes] = ..., news: _Optional[bytes] = ...) -> None: ...

class Workers(_message.Message):
    __slots__ = ("envoy", "live", "expected")
    ENVOY_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    envoy: str
    live: int
    expected: int
    def __init__(self, envoy: _Optional[str] = ..., live: _Optional[int] = ..., expected: _Optional[int] = ...) -> None: ...

class ObservationReport(_message.Message):
    __slots__ = ("batches", "workers")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[ObservationBatch]
    workers: Workers
    def __init__(self, batches: _Optional[_Iterable[_Union[ObservationBatch, _Mapping]]] = ..., workers: _Optional[_Union[Workers, _Mapping]] = ...) -> None: ...

class ObservationAck(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
