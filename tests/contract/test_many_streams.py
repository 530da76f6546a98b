"""More streams than any pool has threads all get their data, and others are answered meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import grpc
import pytest

from isocost.config import ControlPlaneConfig
from isocost.daemon import ControlPlane
from isocost.push.type_urls import CLUSTER
from isocost.push.variant import Variant
from tests.contract.raw_client import DEADLINE_S
from tests.contract.xds_client import XdsClient
from tests.integration.harness.ports import free_port

#: gRPC's own pool of threads would have 32 at most; and fifty more.
STREAMS = 32 + 50


@pytest.fixture
async def control_plane() -> AsyncIterator[ControlPlaneConfig]:
    """A control plane that serves; its settings."""
    config = ControlPlaneConfig(listen=f"127.0.0.1:{free_port()}", http=f"127.0.0.1:{free_port()}")
    stop = asyncio.Event()
    running = asyncio.create_task(ControlPlane(config).run(stop))
    yield config
    stop.set()
    await running


async def test_streams_beyond_any_pool_get_data_while_health_answers(
    control_plane: ControlPlaneConfig, variant: Variant
) -> None:
    own = [("grpc.use_local_subchannel_pool", 1)]
    channels = [
        grpc.aio.insecure_channel(control_plane.listen, options=own) for _ in range(STREAMS)
    ]
    clients = [
        XdsClient(channel, variant, f"envoy-{number}") for number, channel in enumerate(channels)
    ]
    async with asyncio.timeout(DEADLINE_S), aiohttp.ClientSession() as session:
        await asyncio.gather(*(client.subscribe(CLUSTER) for client in clients))
        await asyncio.gather(*(client.taken(CLUSTER) for client in clients))
        # All of them are open now, and stay so.
        async with session.get(f"http://{control_plane.http}/healthz") as response:
            assert response.status == 200
        async with session.get(f"http://{control_plane.http}/v1/status") as response:
            told = (await response.json())["push"]["clients"]
        telemetry = channels[0].stream_unary("/isocost.v1.Telemetry/Report")()
        await telemetry.done_writing()
        assert await telemetry.code() is grpc.StatusCode.OK
    assert len(told) == STREAMS
    assert {held["variant"] for held in told} == {
        "delta" if variant.delta else "state of the world"
    }
    for channel in channels:
        await channel.close()
