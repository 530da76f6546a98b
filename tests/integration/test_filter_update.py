"""A new filter takes over under open streams; the old one's VMs are not missed when they end."""

from __future__ import annotations

from contextlib import AsyncExitStack

import aiohttp

from isocost.config import EnvoySettings
from isocost.observe.workers import WorkerCount
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.connection import Connection
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import post, serving
from tests.integration.harness.held import Gate, held_stream
from tests.integration.harness.picking import picking_envoy
from tests.integration.harness.trap_filter import trap_filter
from tests.integration.harness.wait import wait_until


async def test_the_vms_of_a_replaced_filter_are_not_missed(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backend = await start_backend("node-1")
    workers = ads.observations.workers
    async with FleetFeed(ads, [Row(backend)]), AsyncExitStack() as stack:
        envoy = await picking_envoy(start_envoy, ads, client, [backend])
        ends = Gate()
        backend.answer = held_stream(ends)
        stream = await stack.enter_async_context(await Connection(envoy.url).open())
        await stream.begin_stream()
        await wait_until(lambda: workers.get("edge-test") == WorkerCount(1, 1), "one worker")

        ends_too = Gate()
        ends_too.release()
        backend.answer = held_stream(ends_too)
        ads.publish(serving(backend), EnvoySettings(wasm_path=trap_filter()))
        await wait_until(lambda: replaced(ads, client, envoy), "both filters are heard")
        ends.release()
        while await stream.chunk():
            pass
        await wait_until(lambda: workers["edge-test"] == WorkerCount(1, 1), "one worker again")


async def replaced(ads: AdsServer, client: aiohttp.ClientSession, envoy: object) -> bool:
    await post(client, envoy)
    return ads.observations.workers["edge-test"] == WorkerCount(2, 2)
