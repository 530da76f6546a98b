"""The stream to the control plane: it comes back by itself, and brings nothing old."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import grpc
import pytest

from isocost.telemetry.uplink import BACKOFF_MAX_S, BACKOFF_MIN_S, Backoff, Newest, Uplink
from isocost.v1 import telemetry_pb2

DEADLINE_S = 10.0


class Receiver:
    """A telemetry server that keeps what it got; ``refuse`` ends every stream at once."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.refuse = False
        self.streams = 0
        self.got: asyncio.Queue[int] = asyncio.Queue()
        #: Of each report: did it say who the nodes are, and how well?
        self.complete: list[bool] = []
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        async def report(
            requests: AsyncIterator[telemetry_pb2.TelemetryReport],
            context: grpc.aio.ServicerContext,
        ) -> telemetry_pb2.TelemetryAck:
            self.streams += 1
            if self.refuse:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            async for message in requests:
                self.complete.append(message.HasField("nodes") and message.HasField("health"))
                self.got.put_nowait(message.sequence)
            return telemetry_pb2.TelemetryAck()

        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handler = grpc.stream_unary_rpc_method_handler(
            report,
            request_deserializer=telemetry_pb2.TelemetryReport.FromString,
            response_serializer=telemetry_pb2.TelemetryAck.SerializeToString,
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("isocost.v1.Telemetry", {"Report": handler}),)
        )
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def next(self) -> int:
        return await asyncio.wait_for(self.got.get(), DEADLINE_S)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.start()
    yield receiver
    await receiver.stop()


@asynccontextmanager
async def reporting(port: int) -> AsyncIterator[Newest]:
    newest = Newest()
    task = asyncio.create_task(Uplink(f"127.0.0.1:{port}", newest, random.Random(1)).run())
    try:
        yield newest
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def numbered(sequence: int) -> telemetry_pb2.TelemetryReport:
    return telemetry_pb2.TelemetryReport(agent="a", sequence=sequence)


async def test_reports_arrive_in_order_on_one_stream(receiver: Receiver) -> None:
    async with reporting(receiver.port) as newest:
        for sequence in range(1, 6):
            newest.put(numbered(sequence))
            assert await receiver.next() == sequence
    assert receiver.streams == 1


async def test_each_stream_begins_with_all_that_later_reports_leave_out(receiver: Receiver) -> None:
    def report(sequence: int) -> telemetry_pb2.TelemetryReport:
        return telemetry_pb2.TelemetryReport(
            agent="a", sequence=sequence, nodes=b"nodes", health=b"health"
        )

    async with reporting(receiver.port) as newest:
        for sequence in (1, 2):
            newest.put(report(sequence))
            await receiver.next()
        await receiver.stop()
        await receiver.start()
        while receiver.streams < 2:
            newest.put(report(3))
            await asyncio.sleep(0.01)
        await receiver.next()
    assert receiver.complete[:2] == [True, False] and receiver.complete[-1]


async def test_after_an_outage_only_the_newest_report_is_sent(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with reporting(receiver.port) as newest:
        newest.put(numbered(1))
        assert await receiver.next() == 1
        await receiver.stop()

        def noticed() -> bool:
            newest.put(numbered(2))
            return "no control plane" in caplog.text

        await until(noticed)
        for sequence in range(3, 30):
            newest.put(numbered(sequence))
        await receiver.start()
        assert await receiver.next() == 29
        newest.put(numbered(30))
        assert await receiver.next() == 30
        assert receiver.got.empty()
    told = [record.message for record in caplog.records if "uplink" in record.name]
    assert [message.split()[0] for message in told] == ["reports", "no", "reports"]


async def test_it_starts_before_the_control_plane(caplog: pytest.LogCaptureFixture) -> None:
    late = Receiver()
    await late.start()
    await late.stop()
    async with reporting(late.port) as newest:
        newest.put(numbered(1))
        await until(lambda: "no control plane" in caplog.text)
        await late.start()
        assert await late.next() == 1
    await late.stop()


async def test_a_server_that_refuses_every_stream_is_not_stormed(receiver: Receiver) -> None:
    receiver.refuse = True
    start_s = time.monotonic()
    async with reporting(receiver.port) as newest:

        def refused_five_times() -> bool:
            newest.put(numbered(1))
            return receiver.streams >= 5

        await until(refused_five_times)
    assert time.monotonic() - start_s >= 4 * BACKOFF_MIN_S


async def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s, "the condition did not come true"
        await asyncio.sleep(0.01)


def test_waits_grow_with_the_outage_within_their_bounds() -> None:
    backoff = Backoff(random.Random(1))

    def longest_s(outage_s: float) -> float:
        waits_s = [backoff.next_s(outage_s) for _ in range(200)]
        assert all(BACKOFF_MIN_S <= wait_s <= BACKOFF_MAX_S for wait_s in waits_s)
        assert len(set(waits_s)) == 200
        return max(waits_s)

    assert longest_s(0.0) <= 2 * BACKOFF_MIN_S
    assert longest_s(5.0) <= 0.35
    assert longest_s(600.0) > 0.9 * BACKOFF_MAX_S


async def test_a_newer_report_replaces_one_that_was_not_taken() -> None:
    newest = Newest()
    newest.put(numbered(1))
    newest.put(numbered(2))
    assert (await newest.take()).sequence == 2
    waiting = asyncio.create_task(newest.take())
    await asyncio.sleep(0)
    newest.put(numbered(3))
    assert (await waiting).sequence == 3
