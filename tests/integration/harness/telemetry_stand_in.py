"""A stand-in for the control plane that takes what agents report."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc

from isocost.discovery.report import AgentReport, ReportReader
from isocost.v1 import telemetry_pb2


@dataclass(frozen=True)
class Arrival:
    """A report, when it came, and how old it was then: agents on this machine have its clock."""

    at_s: float
    report: AgentReport

    @property
    def age_s(self) -> float:
        return self.at_s - self.report.monotonic_s


@asynccontextmanager
async def telemetry_stand_in(port: int) -> AsyncIterator[list[Arrival]]:
    """While it listens: what arrived."""
    arrivals: list[Arrival] = []

    async def report(requests: AsyncIterator[bytes], _: object) -> telemetry_pb2.TelemetryAck:
        reader = ReportReader()
        async for data in requests:
            arrivals.append(Arrival(time.monotonic(), reader.read(data, time.time())))
        return telemetry_pb2.TelemetryAck()

    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    handler = grpc.stream_unary_rpc_method_handler(
        report,
        response_serializer=telemetry_pb2.TelemetryAck.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("isocost.v1.Telemetry", {"Report": handler}),)
    )
    assert server.add_insecure_port(f"127.0.0.1:{port}") == port
    await server.start()
    try:
        yield arrivals
    finally:
        await server.stop(0)
