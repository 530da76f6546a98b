"""The stream on which agents report their nodes."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import AsyncIterator

import grpc

from isocost.discovery.registry import Registry
from isocost.discovery.report import ReportReader
from isocost.errors import TelemetryError
from isocost.open_streams import OpenStreams
from isocost.v1 import telemetry_pb2

SERVICE = "isocost.v1.Telemetry"

log = logging.getLogger(__name__)


class TelemetryService:
    """Feeds the registry with what agents report."""

    def __init__(self, registry: Registry, open_streams: OpenStreams | None = None) -> None:
        self._registry = registry
        self._numbers = itertools.count(1)
        self._open_streams = open_streams or OpenStreams()

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
        try:
            return await self._open_streams.read(self._read(context), context)
        except TelemetryError as error:
            # Not in the task that reads: a stop in the middle of it would abort once more.
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise

    async def _read(self, context: grpc.aio.ServicerContext) -> telemetry_pb2.TelemetryAck:
        reader = ReportReader(next(self._numbers))
        refused: tuple[str, ...] = ()
        # Not over the iterator, which takes twice as long for each of a thousand agents' reports.
        while (data := await context.read()) is not grpc.aio.EOF:
            report = reader.read(data, time.time())
            self._registry.receive(report, time.monotonic())
            if report.refused != refused:
                refused = report.refused
                log.warning(
                    "agent %s: refused: %s",
                    *(report.agent, "; ".join(refused) or "nothing"),
                    extra={"agent": report.agent},
                )
        return telemetry_pb2.TelemetryAck()
