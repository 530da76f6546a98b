"""A real ADS server on a free port, and clients with a connection each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.options import server_options
from isocost.push.type_urls import EXTENSION
from isocost.push.variant import DELTA, WHOLE, Variant
from tests.contract.raw_client import DEADLINE_S, Client, open_stream
from tests.contract.xds_client import XdsClient
from tests.contract.xds_resources import opaque

OpenXds = Callable[..., XdsClient]


@pytest.fixture
def cache() -> Cache:
    cache = Cache()
    cache.publish(opaque(EXTENSION, **{f"echo{number}": b"" for number in range(20)}))
    return cache


@pytest.fixture
def clock() -> list[float]:
    """The server's time in seconds, at index 0: it passes only where a test says so."""
    return [1000.0]


@pytest.fixture
def ads(cache: Cache, clock: list[float]) -> AdsService:
    return AdsService(cache, clock=lambda: clock[0])


@pytest.fixture
async def address(ads: AdsService) -> AsyncIterator[str]:
    server = grpc.aio.server(options=server_options())
    ads.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@pytest.fixture
async def connect(address: str) -> AsyncIterator[Callable[..., Client]]:
    """Open streams, each on a connection of its own; all are closed at the end."""
    channels = []

    def connect_as(node_id: str = "envoy-1") -> Client:
        own = [("grpc.use_local_subchannel_pool", 1)]
        channels.append(grpc.aio.insecure_channel(address, options=own))
        return open_stream(channels[-1], node_id)

    yield connect_as
    for channel in channels:
        await channel.close()


@pytest.fixture(params=[WHOLE, DELTA], ids=["whole", "delta"])
def variant(request: pytest.FixtureRequest) -> Variant:
    """The rules that are the same in both are shown in both."""
    chosen: Variant = request.param
    return chosen


@pytest.fixture
async def open_xds(address: str, variant: Variant) -> AsyncIterator[OpenXds]:
    """Open streams of the variant, each on a connection of its own; all are closed at the end."""
    channels = []

    def open_as(node_id: str = "envoy-1", variant: Variant = variant) -> XdsClient:
        own = [("grpc.use_local_subchannel_pool", 1)]
        channels.append(grpc.aio.insecure_channel(address, options=own))
        return XdsClient(channels[-1], variant, node_id)

    yield open_as
    for channel in channels:
        await channel.close()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Wait until a condition holds, with a deadline."""

    async def wait(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():  # noqa: ASYNC110 - a condition has no event
                await asyncio.sleep(0.01)

    return wait
