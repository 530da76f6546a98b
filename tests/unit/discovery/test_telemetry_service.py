"""The telemetry stream on a real gRPC server."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator

import grpc
import pytest

from isocost.config import DiscoverySettings
from isocost.discovery.registry import Registry
from isocost.discovery.telemetry_service import TelemetryService
from isocost.telemetry.report import encode_report
from isocost.telemetry.uplink import METHOD
from isocost.v1 import telemetry_pb2
from tests.integration.harness.wait import wait_until
from tests.unit.fleet_builder import node, sample

DEADLINE_S = 10.0


class Bench:
    def __init__(self, channel: grpc.aio.Channel, registry: Registry) -> None:
        self.registry = registry
        self._report = channel.stream_unary(METHOD)

    async def report(self, *messages: bytes) -> bytes:
        """Send on a stream of its own, and end it."""

        async def stream() -> AsyncIterator[bytes]:
            for message in messages:
                yield message

        return bytes(await asyncio.wait_for(self._report(stream()), DEADLINE_S))

    def open(self, messages: AsyncIterator[bytes]) -> grpc.aio.StreamUnaryCall:
        return self._report(messages)

    def names(self) -> list[str]:
        return [item.name for item in self.registry.view(time.monotonic()).nodes]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    registry = Registry(DiscoverySettings(), time.monotonic())
    server = grpc.aio.server()
    TelemetryService(registry).add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Bench(channel, registry)
    await server.stop(0)


def message(sequence: int, *names: str) -> bytes:
    samples = [
        sample(node(name, address=f"192.0.2.{index}:80")) for index, name in enumerate(names)
    ]
    return encode_report("a1", sequence, 0.0, 0.0, samples).SerializeToString()


async def test_the_end_of_a_stream_removes_nothing(bench: Bench) -> None:
    await bench.report(message(1, "n1", "n2"))
    assert bench.names() == ["n1", "n2"]
    await bench.report()
    assert bench.names() == ["n1", "n2"]


async def test_bytes_that_are_no_report_end_that_stream_only(bench: Bench) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await bench.report(message(1, "n1"), b"\xff\xff")
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    await bench.report(message(1, "n1"))
    assert bench.names() == ["n1"]


async def test_an_agent_without_a_usable_name_is_told_so(bench: Bench) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="no agent's name") as error:
        await bench.report(telemetry_pb2.TelemetryReport(agent="a\nb").SerializeToString())
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_refused_node_is_logged_once_and_not_at_every_report(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bad = sample(node("bad", address="nowhere"))
    report = encode_report("a1", 1, 0.0, 0.0, [bad]).SerializeToString()
    await bench.report(*[report] * 5)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "nowhere" in caplog.text and bench.names() == []


async def test_two_streams_of_one_agent_name_are_shown_while_both_live(bench: Bench) -> None:
    # Short: they must have lived beside each other for that long.
    bench.registry.configure(DiscoverySettings(lost_after_ms=100))

    async def speak() -> AsyncIterator[bytes]:
        for sequence in itertools.count(1):
            yield message(sequence, "n1")
            await asyncio.sleep(0.01)

    def conflicts() -> tuple[str, ...]:
        bench.registry.view(time.monotonic())
        return bench.registry.state(time.monotonic()).conflicts

    calls = [bench.open(speak()) for _ in range(2)]
    await wait_until(conflicts, "both are seen")
    (conflict,) = conflicts()
    assert "agent a1 reports on two streams" in conflict
    calls[1].cancel()
    await wait_until(lambda: not conflicts(), "one is left")
    calls[0].cancel()
