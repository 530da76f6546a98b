"""The stream on which each Envoy's feed reports what its VMs observed."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable

import grpc
from google.protobuf.message import DecodeError

from isocost.observe.batch import Batch, NodeObservation
from isocost.v1 import observation_pb2

SERVICE = "isocost.v1.Observations"
_COUNTS = (
    "node_id",
    "in_flight",
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
)

log = logging.getLogger(__name__)


def add_to(server: grpc.aio.Server, apply: Callable[[Batch, float], None]) -> None:
    """Serve the observation stream; every batch goes to ``apply`` with the monotonic time."""

    async def report(
        requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> observation_pb2.ObservationAck:
        async for data in requests:
            try:
                message = observation_pb2.ObservationReport.FromString(data)
            except DecodeError:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not an ObservationReport")
            now_s = time.monotonic()
            for batch in message.batches:
                apply(decode_batch(batch), now_s)
        return observation_pb2.ObservationAck()

    handler = grpc.stream_unary_rpc_method_handler(
        report, response_serializer=observation_pb2.ObservationAck.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"Report": handler}),)
    )


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
        # Id 0 is the filter's word for a request that no node of the roster served.
        nodes=tuple(_node(node) for node in batch.nodes if node.node_id),
    )


def _node(node: observation_pb2.NodeObservation) -> NodeObservation:
    counts = {name: getattr(node, name) for name in _COUNTS}
    return NodeObservation(
        **counts,
        open_age_s_sum=node.open_age_ms_sum / 1e3,
        first_byte_ms_sum=node.first_byte_us_sum / 1e3,
        tpot_ms_sum=node.tpot_us_sum / 1e3,
        total_ms_sum=node.total_us_sum / 1e3,
    )
