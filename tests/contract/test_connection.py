"""What the server's options promise of a connection: pings, silence, and a port of its own."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.options import server_options
from isocost.push.type_urls import TABLE
from tests.contract.raw_client import DEADLINE_S, open_stream
from tests.contract.xds_resources import roster, table

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
PING = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + b"isocost!"
PING_ACK = (6, 1)
GOAWAY = 7


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, int]:
    """The next HTTP/2 frame's type and flags."""
    head = await reader.readexactly(9)
    await reader.readexactly(int.from_bytes(head[:3], "big"))
    return head[3], head[4]


async def test_client_that_pings_on_a_quiet_connection_is_not_hung_up(address: str) -> None:
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(PREFACE)
    async with asyncio.timeout(DEADLINE_S):
        for _ in range(12):
            writer.write(PING)
            while (frame := await read_frame(reader)) != PING_ACK:
                assert frame[0] != GOAWAY
    writer.close()
    await writer.wait_closed()


@pytest.fixture
async def relay(address: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A way to the server that swallows everything, both ways, once its event is set."""
    host, _, port = address.partition(":")
    silent = asyncio.Event()
    writers: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if not silent.is_set():
                writer.write(data)

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writers.extend((writer, far_writer))
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    server = await asyncio.start_server(join, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", silent
    for writer in writers:
        writer.close()
    server.close()


async def test_silent_client_is_gone_within_ten_seconds(
    relay: tuple[str, asyncio.Event], address: str, cache: Cache, ads: AdsService
) -> None:
    cache.publish(roster(1), table(1))
    near, silent = relay
    host, _, port = address.partition(":")
    # One that never even opened a stream, and answers no ping.
    mute, writer = await asyncio.open_connection(host, int(port))
    writer.write(PREFACE)
    async with grpc.aio.insecure_channel(near) as channel:
        client = open_stream(channel, "envoy-1")
        await client.send(TABLE, "fleet")
        await client.receive(TABLE)
        silent.set()
        async with asyncio.timeout(10):
            while ads.clients():  # noqa: ASYNC110 - a condition has no event
                await asyncio.sleep(0.05)
            await mute.read()
    writer.close()


async def test_port_in_use_is_an_error_and_not_shared(address: str) -> None:
    server = grpc.aio.server(options=server_options())
    with pytest.raises(RuntimeError):
        server.add_insecure_port(address)
    await server.stop(None)
