"""Both variants of ADS serve a real Envoy: changes, a restart and what went while it was away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import aiohttp
import pytest
from envoy_data_plane.envoy.config.cluster.v3 import (
    Cluster,
    ClusterDiscoveryType,
    ClusterEdsClusterConfig,
)
from envoy_data_plane.envoy.config.core.v3 import AggregatedConfigSource, ApiVersion, ConfigSource
from envoy_data_plane.google.protobuf import Any as AnyMessage

from isocost.config import EnvoySettings
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import CLUSTER, ENDPOINTS
from tests.contract.xds_resources import endpoints
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import post, serving, wait_for_members
from tests.integration.harness.ports import free_port
from tests.integration.harness.steady_load import SteadyLoad
from tests.integration.harness.wait import wait_until

both = pytest.mark.parametrize("api_type", ["GRPC", "DELTA_GRPC"])
PER_S = 60
MODELS = [f"model-{number}" for number in range(20)]


def bootstrap(port: int, api_type: str) -> dict[str, Any]:
    """The shipped bootstrap, but for the variant."""
    data = local_bootstrap(port)
    assert data["dynamic_resources"]["ads_config"]["api_type"] == "GRPC"
    data["dynamic_resources"]["ads_config"]["api_type"] = api_type
    return data


async def picks(client: aiohttp.ClientSession, envoy: Envoy) -> bool:
    before = len(envoy.access_log())
    await post(client, envoy)
    return "reason=picked" in (await envoy.logged(before + 1))[-1]["decision"]


@both
async def test_cluster_change_stops_no_traffic(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    api_type: str,
) -> None:
    backends = [await start_backend(f"node-{number}") for number in range(2)]
    ads.publish(serving(*backends))
    async with FleetFeed(ads, [Row(backend) for backend in backends]):
        envoy = start_envoy(bootstrap(ads.port, api_type))
        await wait_for_members(envoy, 2, 2)
        await wait_until(lambda: picks(client, envoy), "the filter picks")
        variants = {held.delta for held in ads.service.clients() if CLUSTER in held.types}
        assert variants == {api_type == "DELTA_GRPC"}
        async with SteadyLoad(envoy.url, PER_S) as load:
            for number in range(1, 4):
                # The endpoints are equal: Envoy would wait for them until its time limit.
                ads.publish(serving(*backends), EnvoySettings(connect_timeout_ms=500 + number))
                await wait_until(partial(modified, envoy, number), "the new cluster is in use")
            more = load.sent + PER_S // 2
            await wait_until(lambda: load.sent >= more, "more load")
    assert load.failures == []
    timed_out = await envoy.stats("^cluster.isocost_nodes.init_fetch_timeout$")
    assert set(timed_out.values()) == {0}


async def modified(envoy: Envoy, times: int) -> bool:
    stats = await envoy.stats("^cluster_manager.(cluster_modified|warming_clusters)$")
    return stats == {
        "cluster_manager.cluster_modified": times,
        "cluster_manager.warming_clusters": 0,
    }


@both
async def test_what_went_while_the_control_plane_was_away_is_gone(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    lives: Lives,
    api_type: str,
) -> None:
    gone, stays = await start_backend("gone"), await start_backend("stays")
    first = await lives.next()
    first.publish(serving(gone, stays))
    publish_beside(first, "old")
    envoy = start_envoy(bootstrap(lives.port, api_type))
    await wait_for_members(envoy, 2, 2)
    await wait_until(lambda: clusters(envoy, 3), "both clusters and the control plane's")
    async with SteadyLoad(envoy.url, PER_S) as load:
        await first.stop()
        second = await lives.next()
        second.publish(serving(stays))
        await wait_for_members(envoy, 1, 1)
        await wait_until(lambda: clusters(envoy, 2), "the old cluster is gone")
        gone.received.clear()
        more = load.sent + PER_S // 2
        await wait_until(lambda: load.sent >= more, "more load")
    assert load.failures == []
    assert not gone.received


async def clusters(envoy: Envoy, count: int) -> bool:
    return (await envoy.stats("^cluster_manager.active_clusters$")) == {
        "cluster_manager.active_clusters": count
    }


class Lives:
    """Control planes that follow each other on one port."""

    def __init__(self) -> None:
        self.port = free_port()
        self._current: AdsServer | None = None

    async def next(self) -> AdsServer:
        self._current = await AdsServer(self.port).start()
        return self._current

    async def end(self) -> None:
        if self._current is not None:
            await self._current.stop()


@pytest.fixture
async def lives() -> AsyncIterator[Lives]:
    made = Lives()
    yield made
    await made.end()


def publish_beside(ads: AdsServer, *names: str, changed: str = "") -> None:
    """Clusters without nodes beside the published one; ``changed`` differs from the others."""
    held = {}
    for url, more in ((CLUSTER, model_clusters(names, changed)), (ENDPOINTS, endpoints(*names))):
        published = ads.cache.snapshot.get(url)
        held[url] = {**(published.resources if published else {}), **more.resources}
    ads.cache.publish(*(TypeResources.hashed(url, bodies) for url, bodies in held.items()))


def model_clusters(names: tuple[str, ...], changed: str) -> TypeResources:
    source = ConfigSource(ads=AggregatedConfigSource(), resource_api_version=ApiVersion.V3)
    made = {
        name: Cluster(
            name=name,
            alt_stat_name=f"{name}-changed" if name == changed else "",
            type=ClusterDiscoveryType.EDS,
            eds_cluster_config=ClusterEdsClusterConfig(eds_config=source),
        )
        for name in names
    }
    return TypeResources.hashed(
        CLUSTER, {name: bytes(AnyMessage.pack(cluster)) for name, cluster in made.items()}
    )


async def test_one_changed_cluster_of_twenty_leaves_the_others_alone(
    start_envoy: StartEnvoy, start_backend: StartBackend, ads: AdsServer
) -> None:
    backend = await start_backend("node-1")
    ads.publish(serving(backend))
    publish_beside(ads, *MODELS)
    envoy = start_envoy(bootstrap(ads.port, "DELTA_GRPC"))
    await wait_for_members(envoy, 1, 1)
    await wait_until(lambda: clusters(envoy, 22), "every cluster")
    before = await endpoint_updates(envoy)
    assert len(before) == 3 * 20
    publish_beside(ads, *MODELS, changed="model-7")
    await wait_until(partial(modified, envoy, 1), "the changed cluster is in use")
    assert await endpoint_updates(envoy) == before


async def endpoint_updates(envoy: Envoy) -> dict[str, int]:
    """Of all clusters but the one that changes."""
    stats = await envoy.stats(
        "^cluster.(model-.*|isocost_nodes).update_(success|no_rebuild|empty)$"
    )
    return {name: count for name, count in stats.items() if ".model-7" not in name}
