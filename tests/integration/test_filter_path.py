"""The filter in its place: it steers, its header stays inside, its settings arrive."""

from __future__ import annotations

import aiohttp

from isocost.config import EnvoySettings, FilterSettings
from isocost.model import NodeState
from isocost.push.type_urls import EXTENSION
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import status
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import post, serving, wait_for_members
from tests.integration.harness.wait import wait_until

_HEADER = "x-isocost-destination"
_NEVER_FIRST = 1e-6


async def _wait_for_picks(
    envoy: Envoy, client: aiohttp.ClientSession, decision: str = "reason=picked"
) -> None:
    """Return once a new request is decided so; the log is then complete."""
    sent = len(envoy.access_log())

    async def decided() -> bool:
        nonlocal sent
        await post(client, envoy)
        sent += 1
        return decision in str((await envoy.logged(sent))[-1]["decision"])

    await wait_until(decided, f"a request with {decision}")


async def test_a_failed_pick_is_served_by_its_alternate_and_the_header_stays_inside(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    failing = await start_backend("failing", answer=status(503))
    good = await start_backend("good", rack="rack-2")
    drained = await start_backend("drained")
    ads.publish(serving(failing, good, drained))
    envoy = start_envoy(local_bootstrap(ads.port))
    await wait_for_members(envoy, total=3, healthy=3)
    rows = [
        Row(failing),
        Row(good, weight=_NEVER_FIRST),
        Row(drained, weight=_NEVER_FIRST, state=NodeState.DRAINING),
    ]
    async with FleetFeed(ads, rows):
        await _wait_for_picks(envoy, client)
        before = len(envoy.access_log())
        for backend in (failing, good, drained):
            backend.received.clear()
        for _ in range(20):
            assert (await post(client, envoy))[0] == 200
    # The drained node is in the cluster, where the fallback would find it: the list held.
    assert [len(item.received) for item in (failing, good, drained)] == [20, 20, 0]
    assert not any(_HEADER in item.headers for item in failing.received + good.received)
    for entry in (await envoy.logged(before + 20))[before:]:
        assert (entry["node"], entry["rack"], entry["attempts"]) == ("good", "rack-2", 2)
        fields = dict(pair.split("=") for pair in entry["decision"].split())
        assert list(fields) == [
            *("policy", "reason", "table", "age_ms"),
            *("body_bytes", "prompt_tokens", "output_tokens"),
        ]
        assert fields["policy"] == "weighted_random"
        assert fields["reason"] == "picked"


async def test_the_filters_pick_holds_against_a_clients_own_destination(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    wanted, picked = await start_backend("wanted"), await start_backend("picked")
    ads.publish(serving(wanted, picked))
    envoy = start_envoy(local_bootstrap(ads.port))
    await wait_for_members(envoy, total=2, healthy=2)
    async with FleetFeed(ads, [Row(wanted, weight=0.0), Row(picked)]):
        await _wait_for_picks(envoy, client)
        wanted.received.clear()
        for _ in range(20):
            assert (await post(client, envoy, [(_HEADER, wanted.address)]))[0] == 200
    assert not wanted.received


async def test_settings_reach_the_filter_while_it_runs(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backend = await start_backend("node-1")
    ads.publish(serving(backend))
    envoy = start_envoy(local_bootstrap(ads.port))
    await wait_for_members(envoy, total=1, healthy=1)
    async with FleetFeed(ads, [Row(backend)]):
        await _wait_for_picks(envoy, client, "policy=weighted_random reason=picked")
        ads.publish(serving(backend), filter_settings=FilterSettings(policy="min_entropy"))
        await _wait_for_picks(envoy, client, "policy=min_entropy reason=picked")


async def test_a_filter_file_that_envoy_lacks_is_refused_and_the_old_settings_stay(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backend = await start_backend("node-1")
    ads.publish(serving(backend), envoy=EnvoySettings(wasm_path="/nowhere/isocost.wasm"))
    envoy = start_envoy(local_bootstrap(ads.port))
    await wait_for_members(envoy, total=1, healthy=1)

    def refusals() -> list[str | None]:
        types = [status.types for status in ads.service.clients()]
        return [item[EXTENSION].error for item in types if EXTENSION in item]

    await wait_until(lambda: any(refusals()), "Envoy refuses the settings")
    assert "/nowhere/isocost.wasm" in str(refusals())
    async with FleetFeed(ads, [Row(backend)]):
        await _wait_for_picks(envoy, client)
