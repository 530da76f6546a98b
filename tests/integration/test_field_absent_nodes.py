"""Nodes that refuse, left the cluster or come and go cost the client nothing."""

from __future__ import annotations

import asyncio

import aiohttp

from isocost.config import EnvoySettings
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import post, serving, wait_for_members
from tests.integration.harness.picking import picking_envoy
from tests.integration.harness.steady_load import SteadyLoad

CHANGES = 10
BETWEEN_CHANGES_S = 0.25
#: A node that does not answer the connection, then another one.
LONGEST_MS = 2 * EnvoySettings().connect_timeout_ms


async def test_one_refusing_node_of_three_costs_no_request(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backends = [await start_backend(f"node-{number}") for number in range(3)]
    async with FleetFeed(ads, [Row(backend) for backend in backends]):
        envoy = await picking_envoy(start_envoy, ads, client, backends)
        before = len(envoy.access_log())
        await backends[0].stop()
        for _ in range(100):
            assert (await post(client, envoy))[0] == 200
    entries = (await envoy.logged(before + 100))[before:]
    assert {entry["attempts"] for entry in entries} == {1, 2}


async def test_a_picked_node_that_left_the_cluster_is_served_by_another(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    gone, good = await start_backend("gone"), await start_backend("good")
    # The table knows one node only, so the list names nobody who is still there.
    async with FleetFeed(ads, [Row(gone)]):
        envoy = await picking_envoy(start_envoy, ads, client, [gone])
        ads.publish_endpoints(serving(good))
        await wait_for_members(envoy, total=1, healthy=1)
        before = len(envoy.access_log())
        gone.received.clear()
        for _ in range(20):
            assert (await post(client, envoy))[0] == 200
    assert [len(gone.received), len(good.received)] == [0, 20]
    for entry in (await envoy.logged(before + 20))[before:]:
        assert "reason=picked" in entry["decision"]
        assert entry["node"] == "good"


async def test_nodes_that_come_and_go_twice_a_second_hold_up_no_request(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    stays = await start_backend("stays")
    async with FleetFeed(ads, [Row(stays)]) as feed:
        envoy = await picking_envoy(start_envoy, ads, client, [stays])
        before = len(envoy.access_log())
        visitors = []
        async with SteadyLoad(envoy.url, per_s=60) as load:
            for number in range(CHANGES):
                visitors.append(await start_backend(f"visitor-{number}"))
                ads.publish_endpoints(serving(stays, visitors[-1]))
                feed.rows = [Row(stays), Row(visitors[-1])]
                feed.publish()
                await asyncio.sleep(BETWEEN_CHANGES_S)
                # It is gone before anybody hears of it.
                await visitors[-1].stop()
                ads.publish_endpoints(serving(stays))
                feed.rows = [Row(stays)]
                feed.publish()
                await asyncio.sleep(BETWEEN_CHANGES_S)
    assert load.failures == []
    assert sum(bool(visitor.received) for visitor in visitors) >= CHANGES // 2
    entries = (await envoy.logged(before + load.sent))[before:]
    assert max(entry["duration_ms"] for entry in entries) <= LONGEST_MS
