"""The stream on which agents report their nodes."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator

import grpc

from isocost.discovery.registry import Registry
from isocost.discovery.report import ReportReader
from isocost.errors import TelemetryError
from isocost.v1 import telemetry_pb2

SERVICE = "isocost.v1.Telemetry"

log = logging.getLogger(__name__)


class TelemetryService:
    """Feeds the registry with what agents report."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def add_to(self, server: grpc.aio.Server) -> None:
        handler = grpc.stream_unary_rpc_method_handler(
            self._report, response_serializer=telemetry_pb2.TelemetryAck.SerializeToString
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"Report": handler}),)
        )

    async def _report(
        self, _: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> telemetry_pb2.TelemetryAck:
        reader = ReportReader()
        refused: tuple[str, ...] = ()
        # Not over the iterator, which takes twice as long for each of a thousand agents' reports.
        while (data := await context.read()) is not grpc.aio.EOF:
            try:
                report = reader.read(data, time.time())
            except TelemetryError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            self._registry.receive(report, time.monotonic())
            if report.refused != refused:
                refused = report.refused
                log.warning("agent %s: refused: %s", report.agent, "; ".join(refused) or "nothing")
        return telemetry_pb2.TelemetryAck()
