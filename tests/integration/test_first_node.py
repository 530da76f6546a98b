"""Parts that start in any order: traffic flows within 1 s of the first node."""

from __future__ import annotations

import aiohttp

from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.envoy import local_bootstrap
from tests.integration.harness.filters import without_filter
from tests.integration.harness.gateway import post, serving
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until

_FIRST_NODE_BAR_S = 1.0


async def test_envoy_finds_a_control_plane_that_starts_after_it(
    start_envoy: StartEnvoy, start_backend: StartBackend, client: aiohttp.ClientSession
) -> None:
    backend = await start_backend("node-1")
    ads = AdsServer(free_port())
    envoy = start_envoy(without_filter(local_bootstrap(ads.port)))
    await envoy.wait_live()

    async def attempts() -> bool:
        stats = await envoy.stats("^cluster.isocost_control_plane.upstream_cx_connect_fail$")
        return sum(stats.values()) >= 8

    # By then the pause between two attempts has grown as long as it gets.
    await wait_until(attempts, "eight vain connections")
    assert (await post(client, envoy))[0] == 503
    await ads.start()
    try:
        ads.publish(serving(backend))
        await _require_traffic(client, envoy.url)
    finally:
        await ads.stop()


async def test_a_node_that_comes_to_an_empty_fleet_gets_traffic(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    ads.publish([])
    envoy = start_envoy(without_filter(local_bootstrap(ads.port)))
    await envoy.wait_live()
    assert (await post(client, envoy))[0] == 503
    ads.publish_endpoints(serving(await start_backend("node-1")))
    await _require_traffic(client, envoy.url)


async def test_traffic_goes_on_without_the_control_plane(
    start_envoy: StartEnvoy, start_backend: StartBackend, client: aiohttp.ClientSession
) -> None:
    backend = await start_backend("node-1")
    ads = await AdsServer().start()
    ads.publish(serving(backend))
    envoy = start_envoy(without_filter(local_bootstrap(ads.port)))
    await _require_traffic(client, envoy.url, deadline_s=15)
    await ads.stop()

    async def disconnected() -> bool:
        return (await envoy.stats("^control_plane.connected_state$")) == {
            "control_plane.connected_state": 0
        }

    await wait_until(disconnected, "Envoy noticed")
    for _ in range(10):
        assert (await post(client, envoy))[0] == 200


async def _require_traffic(
    client: aiohttp.ClientSession, url: str, deadline_s: float = _FIRST_NODE_BAR_S
) -> None:
    async def served() -> bool:
        try:
            async with client.get(url) as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    await wait_until(served, "a request is served", deadline_s)
