"""The stream on which each Envoy's feed reports what its VMs observed."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterable
from itertools import chain
from operator import attrgetter
from struct import pack
from typing import Protocol

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from isocost.observe.batch import NUMBERS, Answer, Batch, NodeTable, Placement
from isocost.observe.history import BUCKETS, Floats
from isocost.observe.workers import WorkerCount
from isocost.open_streams import OpenStreams
from isocost.v1 import observation_pb2

SERVICE = "isocost.v1.Observations"
#: On the wire times are in milliseconds and microseconds, and some names are others.
_WIRE = {
    "open_age_s_sum": "open_age_ms_sum",
    "first_byte_ms_sum": "first_byte_us_sum",
    "tpot_ms_sum": "tpot_us_sum",
    "total_ms_sum": "total_us_sum",
    "prefill.n": "prefill_count",
    "prefill.tokens": "prefill_tokens_sum",
    "prefill.seconds": "prefill_us_sum",
}
_numbers_of = attrgetter("node_id", *(_WIRE.get(name, name) for name in NUMBERS))
_PLACE = {name: place for place, name in enumerate(NUMBERS)}

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


def add_to(
    server: grpc.aio.Server, observer: Observer, open_streams: OpenStreams | None = None
) -> None:
    """Serve the observation stream."""
    streams = open_streams or OpenStreams()

    async def read(requests: AsyncIterator[bytes]) -> observation_pb2.ObservationAck:
        async for data in requests:
            message = observation_pb2.ObservationReport.FromString(data)
            take(message, observer, time.monotonic())
        return observation_pb2.ObservationAck()

    async def report(
        requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> observation_pb2.ObservationAck:
        try:
            return await streams.read(read(requests), context)
        except DecodeError:
            # Not in the task that reads: a stop in the middle of it would abort once more.
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not an ObservationReport")
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
        nodes=_table(batch.nodes) if batch.nodes else (),
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


def _table(nodes: Iterable[observation_pb2.NodeObservation]) -> NodeTable:
    """The nodes' numbers, none of them beyond what can be."""
    # Packed in C, all numbers at once: numpy would look at each object.
    numbers = list(chain.from_iterable(map(_numbers_of, nodes)))
    told = np.frombuffer(pack(f"{len(numbers)}Q", *numbers), np.uint64)
    told = told.reshape(-1, 1 + len(NUMBERS))
    # Id 0 is the filter's word for a request that no node of the roster served.
    told = told[told[:, 0] != 0]
    ids, values = told[:, 0].tolist(), told[:, 1:].astype(np.float64)
    columns = {name: values[:, place] for name, place in _PLACE.items()}
    in_flight = columns["in_flight"]
    _limit(in_flight, _MOST_OPEN)
    columns["open_age_s_sum"] /= 1e3
    _limit(columns["open_age_s_sum"], in_flight * _LONGEST_S)
    _limit(columns["pending_tokens"], in_flight * _MOST_TOKENS)
    _limit(columns["kv_tokens"], in_flight * _MOST_TOKENS)
    for name in ("first_byte", "tpot", "total"):
        columns[f"{name}_ms_sum"] /= 1e3
        _limit(columns[f"{name}_ms_sum"], columns[f"{name}_count"] * _LONGEST_S * 1e3)
    columns["prefill.seconds"] /= 1e6
    count = columns["prefill.n"]
    impossible = columns["prefill.tokens"] > count * float(_MOST_OPEN * _MOST_TOKENS)
    impossible |= columns["prefill.seconds"] > count * _LONGEST_S
    if impossible.any():
        # None at all where they cannot be sums over so many requests.
        for name in ("prefill.n", "prefill.tokens", "prefill.seconds"):
            columns[name][impossible] = 0.0
    return NodeTable(ids, values)


def _limit(column: Floats, most: Floats | float) -> None:
    np.minimum(column, most, out=column)
