"""The stream on which each Envoy's feed reports what its VMs observed."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import Protocol

import grpc
from google.protobuf.message import DecodeError

from isocost.observe.batch import (
    NO_PREFILLS,
    Answer,
    Batch,
    NodeObservation,
    Placement,
    PrefillSums,
)
from isocost.observe.history import BUCKETS
from isocost.observe.workers import WorkerCount
from isocost.v1 import observation_pb2

SERVICE = "isocost.v1.Observations"
_COUNTS = (
    "started",
    "succeeded",
    "client_errors",
    "rate_limited",
    "server_errors",
    "resets",
    "client_aborts",
    "failed_attempts",
    "unknown_attempts",
    "first_byte_count",
    "tpot_count",
    "total_count",
    "chunks",
    "output_tokens",
    "finish_stop",
    "finish_length",
    "finish_tool",
    "finish_other",
)

#: What a VM may claim. No machine holds more requests open on one node, and the sums of many VMs
#: stay far inside 64 bits: one wrong message must not stop every tick.
_MOST_OPEN = 100_000
#: Of one request, in seconds: longer than any answer takes.
_LONGEST_S = 86_400.0
#: Of one request, in tokens: more than any model's context.
_MOST_TOKENS = 10_000_000

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Who counts what the streams bring; ``now_s`` is the monotonic time."""

    def apply(self, batch: Batch, now_s: float) -> None: ...

    def apply_workers(self, envoy: str, count: WorkerCount, now_s: float) -> None: ...


def add_to(server: grpc.aio.Server, observer: Observer) -> None:
    """Serve the observation stream."""

    async def report(
        requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> observation_pb2.ObservationAck:
        async for data in requests:
            try:
                message = observation_pb2.ObservationReport.FromString(data)
            except DecodeError:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not an ObservationReport")
            take(message, observer, time.monotonic())
        return observation_pb2.ObservationAck()

    handler = grpc.stream_unary_rpc_method_handler(
        report, response_serializer=observation_pb2.ObservationAck.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"Report": handler}),)
    )


def take(message: observation_pb2.ObservationReport, observer: Observer, now_s: float) -> None:
    """Hand all that a report says to who counts it."""
    for batch in message.batches:
        observer.apply(decode_batch(batch), now_s)
    if message.HasField("workers"):
        workers = message.workers
        observer.apply_workers(workers.envoy, decode_workers(workers), now_s)


def decode_batch(batch: observation_pb2.ObservationBatch) -> Batch:
    """A batch as its frozen type, times in milliseconds and seconds."""
    return Batch(
        envoy=batch.envoy,
        incarnation=batch.incarnation,
        sequence=batch.sequence,
        table_version=batch.table_version,
        picked=batch.picked,
        fallback_no_table=batch.fallback_no_table,
        fallback_stale_table=batch.fallback_stale_table,
        fallback_no_eligible=batch.fallback_no_eligible,
        fallback_host_failure=batch.fallback_host_failure,
        stale_choices=batch.stale_choices,
        # Id 0 is the filter's word for a request that no node of the roster served.
        nodes=tuple(_node(node) for node in batch.nodes if node.node_id),
        placements=tuple(
            Placement(placement.node_id, tuple(placement.blocks))
            for placement in batch.placements
            if placement.node_id
        ),
        answers=tuple(
            Answer(answer.user_bucket, answer.model, min(answer.output_tokens, _MOST_TOKENS))
            for answer in batch.answers
            if answer.user_bucket <= BUCKETS
        ),
    )


def decode_workers(workers: observation_pb2.Workers) -> WorkerCount:
    """The count, of which no more can be alive than are expected."""
    return WorkerCount(min(workers.live, workers.expected), workers.expected)


def _node(node: observation_pb2.NodeObservation) -> NodeObservation:
    """A node's numbers, none of them beyond what can be."""
    counts = {name: getattr(node, name) for name in _COUNTS}
    in_flight = min(node.in_flight, _MOST_OPEN)
    return NodeObservation(
        node_id=node.node_id,
        in_flight=in_flight,
        **counts,
        open_age_s_sum=min(node.open_age_ms_sum / 1e3, in_flight * _LONGEST_S),
        first_byte_ms_sum=_ms(node.first_byte_us_sum, counts["first_byte_count"]),
        tpot_ms_sum=_ms(node.tpot_us_sum, counts["tpot_count"]),
        total_ms_sum=_ms(node.total_us_sum, counts["total_count"]),
        pending_tokens=min(node.pending_tokens, in_flight * _MOST_TOKENS),
        kv_tokens=min(node.kv_tokens, in_flight * _MOST_TOKENS),
        prefill=_prefills(node),
    )


def _prefills(node: observation_pb2.NodeObservation) -> PrefillSums:
    """None at all if they cannot be sums over so many requests."""
    count, tokens, seconds = node.prefill_count, node.prefill_tokens_sum, node.prefill_us_sum / 1e6
    possible = tokens <= count * _MOST_OPEN * _MOST_TOKENS and seconds <= count * _LONGEST_S
    return PrefillSums(count, tokens, seconds) if possible else NO_PREFILLS


def _ms(sum_us: int, count: int) -> float:
    return min(sum_us / 1e3, count * _LONGEST_S * 1e3)
