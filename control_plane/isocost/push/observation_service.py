"""The stream on which each Envoy's feed reports what its VMs observed."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from typing import Protocol

import grpc
import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from isocost.errors import IsocostError
from isocost.observe.batch import OPEN, Answer, Batch, Columns, NodeTable, Placement
from isocost.observe.history import BUCKETS, Floats
from isocost.observe.workers import WorkerCount
from isocost.open_streams import OpenStreams
from isocost.v1 import observation_pb2

SERVICE = "isocost.v1.Observations"
#: The rows of a batch, see observation.proto. Times are in milliseconds and microseconds there.
_OPEN_ROW = np.dtype([("id", "<u8"), ("in_flight", "<u4"), ("sums", "<u8", 3)])
_COUNTS = (
    *("started", "succeeded", "client_errors", "rate_limited", "server_errors", "resets"),
    *("client_aborts", "failed_attempts", "unknown_attempts", "first_byte_count", "tpot_count"),
    *("total_count", "prefill.n", "finish_stop", "finish_length", "finish_tool", "finish_other"),
)
_SUMS = (
    *("first_byte_ms_sum", "tpot_ms_sum", "total_ms_sum", "chunks", "output_tokens"),
    *("prefill.tokens", "prefill.seconds"),
)
_NEWS_ROW = np.dtype([("id", "<u8"), ("counts", "<u4", len(_COUNTS)), ("sums", "<u8", len(_SUMS))])
_NEWS = (*_COUNTS, *_SUMS)

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


class RowError(IsocostError):
    """What a batch has of its nodes are no rows."""


def add_to(
    server: grpc.aio.Server, observer: Observer, open_streams: OpenStreams | None = None
) -> None:
    """Serve the observation stream."""
    streams = open_streams or OpenStreams()

    async def read(context: grpc.aio.ServicerContext) -> observation_pb2.ObservationAck:
        while (data := await context.read()) is not grpc.aio.EOF:
            message = observation_pb2.ObservationReport.FromString(data)
            take(message, observer, time.monotonic())
        return observation_pb2.ObservationAck()

    async def report(
        _: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> observation_pb2.ObservationAck:
        try:
            return await streams.read(read(context), context)
        except (DecodeError, RowError) as error:
            # Not in the task that reads: a stop in the middle of it would abort once more.
            reason = f"not an ObservationReport: {error}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
            raise

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
    """A batch as its frozen type, times in milliseconds and seconds. RowError: what it has of nodes
    are no rows.
    """
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
        nodes=NodeTable(_open(batch.open), _news(batch.news)) if batch.open or batch.news else (),
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


def _rows(content: bytes, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    if len(content) % dtype.itemsize:
        raise RowError(f"{len(content)} bytes are no rows of {dtype.itemsize}")
    rows = np.frombuffer(content, dtype)
    # Id 0 is the filter's word for a request that no node of the roster served.
    some = rows["id"] != 0
    return rows if some.all() else rows[some]


def _open(content: bytes) -> Columns:
    """What is open on nodes, none of the numbers beyond what can be."""
    rows = _rows(content, _OPEN_ROW)
    numbers = np.empty((len(rows), len(OPEN)))
    in_flight = np.minimum(rows["in_flight"], _MOST_OPEN)
    numbers[:, 0], numbers[:, 1:] = in_flight, rows["sums"]
    numbers[:, 1] /= 1e3
    _limit(numbers[:, 1], numbers[:, 0] * _LONGEST_S)
    _limit(numbers[:, 2:], numbers[:, :1] * _MOST_TOKENS)
    return Columns(OPEN, rows["id"], numbers)


def _news(content: bytes) -> Columns:
    """What happened on nodes, none of the numbers beyond what can be."""
    rows = _rows(content, _NEWS_ROW)
    numbers = np.empty((len(rows), len(_NEWS)))
    numbers[:, : len(_COUNTS)], numbers[:, len(_COUNTS) :] = rows["counts"], rows["sums"]
    news = Columns(_NEWS, rows["id"], numbers)
    for name in ("first_byte", "tpot", "total"):
        sums = news.column(f"{name}_ms_sum")
        sums /= 1e3
        _limit(sums, news.column(f"{name}_count") * _LONGEST_S * 1e3)
    count, seconds = news.column("prefill.n"), news.column("prefill.seconds")
    seconds /= 1e6
    impossible = news.column("prefill.tokens") > count * float(_MOST_OPEN * _MOST_TOKENS)
    impossible |= seconds > count * _LONGEST_S
    if impossible.any():
        # None at all where they cannot be sums over so many requests.
        for name in ("prefill.n", "prefill.tokens", "prefill.seconds"):
            news.column(name)[impossible] = 0.0
    return news


def _limit(column: Floats, most: Floats | float) -> None:
    np.minimum(column, most, out=column)
