"""The filter's settings change under load without a request lost; bad ones change nothing."""

from __future__ import annotations

import asyncio

import aiohttp

from isocost.config import FilterSettings
from isocost.push.type_urls import EXTENSION
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import post, serving
from tests.integration.harness.picking import picking_envoy
from tests.integration.harness.steady_load import SteadyLoad
from tests.integration.harness.wait import wait_until

UPDATES = 8
BETWEEN_UPDATES_S = 0.5
SETTINGS = FilterSettings(policy="min_entropy"), FilterSettings(policy="weighted_random")


async def test_settings_that_change_under_load_cost_no_request(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backends = [await start_backend(f"node-{number}") for number in range(2)]
    async with FleetFeed(ads, [Row(backend) for backend in backends]):
        envoy = await picking_envoy(start_envoy, ads, client, backends)
        before = len(envoy.access_log())
        async with SteadyLoad(envoy.url, per_s=60) as load:
            for number in range(UPDATES):
                settings = SETTINGS[number % 2]
                ads.publish(serving(*backends), filter_settings=settings)
                await asyncio.sleep(BETWEEN_UPDATES_S)
    assert load.failures == []
    entries = (await envoy.logged(before + load.sent))[before:]
    decisions = [entry["decision"] for entry in entries]
    for settings in SETTINGS:
        assert any(f"policy={settings.policy} reason=picked" in decision for decision in decisions)


async def test_settings_that_the_filter_refuses_leave_the_old_ones_at_work(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backend = await start_backend("node-1")
    async with FleetFeed(ads, [Row(backend)]):
        # Not the settings of the bootstrap, so that falling back to those would show.
        kept = FilterSettings(policy="min_entropy")
        envoy = await picking_envoy(start_envoy, ads, client, [backend], kept)
        before = len(envoy.access_log())
        # A field's copy is not validated: what the control plane itself would never send.
        bad = kept.model_copy(update={"policy": "nonsense"})
        ads.publish(serving(backend), filter_settings=bad)
        await wait_until(lambda: _refused(ads), "Envoy refuses them")
        for _ in range(20):
            assert (await post(client, envoy))[0] == 200
    for entry in (await envoy.logged(before + 20))[before:]:
        assert "policy=min_entropy reason=picked" in entry["decision"]


def _refused(ads: AdsServer) -> bool:
    """Has Envoy refused the filter's settings?"""
    types = [status.types for status in ads.service.clients()]
    return any(item[EXTENSION].error for item in types if EXTENSION in item)
