"""What the server's options promise of a connection: pings, silence, and a port of its own."""

import asyncio

import grpc
import pytest

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.options import server_options
from isocost.push.type_urls import TABLE
from tests.contract.raw_client import DEADLINE_S, open_stream
from tests.contract.relay import relay_to
from tests.contract.xds_resources import roster, table

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
PING = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + b"isocost!"
PING_ACK = (6, 1)
GOAWAY = 7
#: What the shipped Envoys send on a connection that is idle for ten minutes.
PINGS = 120


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, int]:
    """The next HTTP/2 frame's type and flags."""
    head = await reader.readexactly(9)
    await reader.readexactly(int.from_bytes(head[:3], "big"))
    return head[3], head[4]


async def test_connection_that_is_idle_but_for_pings_stays_up(address: str) -> None:
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(PREFACE)
    async with asyncio.timeout(DEADLINE_S):
        for _ in range(PINGS):
            writer.write(PING)
            while (frame := await read_frame(reader)) != PING_ACK:
                assert frame[0] != GOAWAY
    writer.close()
    await writer.wait_closed()


async def test_silent_client_is_gone_within_ten_seconds(
    address: str, cache: Cache, ads: AdsService
) -> None:
    cache.publish(roster(1), table(1))
    host, _, port = address.partition(":")
    # One that never even opened a stream, and answers no ping.
    mute, writer = await asyncio.open_connection(host, int(port))
    writer.write(PREFACE)
    async with (
        relay_to(host, int(port)) as relay,
        grpc.aio.insecure_channel(f"127.0.0.1:{relay.port}") as channel,
    ):
        client = open_stream(channel, "envoy-1")
        await client.send(TABLE, "fleet")
        await client.receive(TABLE)
        relay.silent()
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
