from isocost.v1 import table_pb2 as _table_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeObservation(_message.Message):
    __slots__ = ("node_id", "in_flight", "open_age_ms_sum", "started", "succeeded", "client_errors", "rate_limited", "server_errors", "resets", "client_aborts", "failed_attempts", "first_byte_count", "first_byte_us_sum", "tpot_count", "tpot_us_sum", "total_count", "total_us_sum", "chunks", "output_tokens", "unknown_attempts", "progress", "pending_tokens", "kv_tokens", "prefill_count", "prefill_tokens_sum", "prefill_us_sum", "finish_stop", "finish_length", "finish_tool", "finish_other")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    OPEN_AGE_MS_SUM_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    SUCCEEDED_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ERRORS_FIELD_NUMBER: _ClassVar[int]
    RATE_LIMITED_FIELD_NUMBER: _ClassVar[int]
    SERVER_ERRORS_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ABORTS_FIELD_NUMBER: _ClassVar[int]
    FAILED_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_BYTE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_BYTE_US_SUM_FIELD_NUMBER: _ClassVar[int]
    TPOT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TPOT_US_SUM_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_US_SUM_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    PENDING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    KV_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREFILL_COUNT_FIELD_NUMBER: _ClassVar[int]
    PREFILL_TOKENS_SUM_FIELD_NUMBER: _ClassVar[int]
    PREFILL_US_SUM_FIELD_NUMBER: _ClassVar[int]
    FINISH_STOP_FIELD_NUMBER: _ClassVar[int]
    FINISH_LENGTH_FIELD_NUMBER: _ClassVar[int]
    FINISH_TOOL_FIELD_NUMBER: _ClassVar[int]
    FINISH_OTHER_FIELD_NUMBER: _ClassVar[int]
    node_id: int
    in_flight: int
    open_age_ms_sum: int
    started: int
    succeeded: int
    client_errors: int
    rate_limited: int
    server_errors: int
    resets: int
    client_aborts: int
    failed_attempts: int
    first_byte_count: int
    first_byte_us_sum: int
    tpot_count: int
    tpot_us_sum: int
    total_count: int
    total_us_sum: int
    chunks: int
    output_tokens: int
    unknown_attempts: int
    progress: int
    pending_tokens: int
    kv_tokens: int
    prefill_count: int
    prefill_tokens_sum: int
    prefill_us_sum: int
    finish_stop: int
    finish_length: int
    finish_tool: int
    finish_other: int
    def __init__(self, node_id: _Optional[int] = ..., in_flight: _Optional[int] = ..., open_age_ms_sum: _Optional[int] = ..., started: _Optional[int] = ..., succeeded: _Optional[int] = ..., client_errors: _Optional[int] = ..., rate_limited: _Optional[int] = ..., server_errors: _Optional[int] = ..., resets: _Optional[int] = ..., client_aborts: _Optional[int] = ..., failed_attempts: _Optional[int] = ..., first_byte_count: _Optional[int] = ..., first_byte_us_sum: _Optional[int] = ..., tpot_count: _Optional[int] = ..., tpot_us_sum: _Optional[int] = ..., total_count: _Optional[int] = ..., total_us_sum: _Optional[int] = ..., chunks: _Optional[int] = ..., output_tokens: _Optional[int] = ..., unknown_attempts: _Optional[int] = ..., progress: _Optional[int] = ..., pending_tokens: _Optional[int] = ..., kv_tokens: _Optional[int] = ..., prefill_count: _Optional[int] = ..., prefill_tokens_sum: _Optional[int] = ..., prefill_us_sum: _Optional[int] = ..., finish_stop: _Optional[int] = ..., finish_length: _Optional[int] = ..., finish_tool: _Optional[int] = ..., finish_other: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("envoy", "incarnation", "sequence", "taken_at_unix_ms", "table_version", "nodes", "picked", "fallback_no_table", "fallback_stale_table", "fallback_no_eligible", "fallback_host_failure", "stale_choices", "leaving", "placements", "answers")
    ENVOY_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    TABLE_VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PICKED_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_NO_TABLE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_STALE_TABLE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_NO_ELIGIBLE_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_HOST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    STALE_CHOICES_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    envoy: str
    incarnation: int
    sequence: int
    taken_at_unix_ms: int
    table_version: int
    nodes: _containers.RepeatedCompositeFieldContainer[NodeObservation]
    picked: int
    fallback_no_table: int
    fallback_stale_table: int
    fallback_no_eligible: int
    fallback_host_failure: int
    stale_choices: int
    leaving: bool
    placements: _containers.RepeatedCompositeFieldContainer[_table_pb2.Placement]
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    def __init__(self, envoy: _Optional[str] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., taken_at_unix_ms: _Optional[int] = ..., table_version: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[NodeObservation, _Mapping]]] = ..., picked: _Optional[int] = ..., fallback_no_table: _Optional[int] = ..., fallback_stale_table: _Optional[int] = ..., fallback_no_eligible: _Optional[int] = ..., fallback_host_failure: _Optional[int] = ..., stale_choices: _Optional[int] = ..., leaving: _Optional[bool] = ..., placements: _Optional[_Iterable[_Union[_table_pb2.Placement, _Mapping]]] = ..., answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ...) -> None: ...

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
