"""Settings that change while streams are open leave no VM behind."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

import aiohttp

from isocost.config import FilterSettings
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.connection import Connection
from tests.integration.harness.envoy import Envoy
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import serving
from tests.integration.harness.held import LAST_CHUNK, Gate, held_stream
from tests.integration.harness.picking import picking_envoy
from tests.integration.harness.wait import wait_until

STREAMS = 20
UPDATES = 500
UPDATES_PER_STREAM = UPDATES // STREAMS


async def test_settings_that_change_under_open_streams_leave_no_vm_behind(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backend = await start_backend("node-1")
    async with FleetFeed(ads, [Row(backend)]), AsyncExitStack() as stack:
        envoy = await picking_envoy(start_envoy, ads, client, [backend])
        before = await _vms(envoy)
        ends = Gate()
        backend.answer = held_stream(ends)
        streams = [
            await stack.enter_async_context(await Connection(envoy.url).open())
            for _ in range(STREAMS)
        ]
        for number in range(UPDATES):
            # Each begins under other settings than the one before it.
            if number % UPDATES_PER_STREAM == 0:
                await streams[number // UPDATES_PER_STREAM].begin_stream()
            settings = FilterSettings(policy="weighted_random", max_table_age_ms=5001 + number)
            ads.publish(serving(backend), filter_settings=settings)
            await wait_until(partial(_updates, envoy, number + 2), "an update")
        # The same code under the same name is the same VM, whatever its settings.
        assert await _vms(envoy) == before
        ends.release()
        for stream in streams:
            assert [await stream.chunk(), await stream.chunk()] == [LAST_CHUNK, b""]
        await wait_until(lambda: _vms_are(envoy, before), f"{before} VMs")


async def _vms(envoy: Envoy) -> int:
    (active,) = (await envoy.stats("^wasm.envoy.wasm.runtime.v8.active$")).values()
    return active


async def _vms_are(envoy: Envoy, count: int) -> bool:
    return await _vms(envoy) == count


async def _updates(envoy: Envoy, count: int) -> bool:
    stats = await envoy.stats("extension_config_discovery.*config_reload$")
    return sum(stats.values()) >= count
