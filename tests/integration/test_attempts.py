"""Failed attempts are counted on the node that failed, and leave nothing open there."""

from __future__ import annotations

import asyncio

import aiohttp

from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import Backend, reset
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.fleet import decision_fields
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import post, serving, wait_for_members
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

REQUESTS = 300
#: Retries at once stay within the budget that the routes give them.
CONCURRENCY = 8
#: It gets a third of the requests until its failures are seen.
AT_LEAST = 5


async def test_a_node_that_always_resets_has_as_many_failures_as_it_saw_requests(
    stand_in_fleet: StandInFleet, start_backend: StartBackend, client: aiohttp.ClientSession
) -> None:
    backends = [await start_backend(f"node-{number}") for number in (1, 2, 3)]
    first, *others = backends
    async with stand_in_fleet.running(backends):
        first.answer = reset
        assert await ask(client, stand_in_fleet.envoy, REQUESTS) == {200}
        assert len(first.received) >= AT_LEAST

        async def all_counted() -> bool:
            return await failures(stand_in_fleet, first) >= len(first.received)

        await wait_until(all_counted, "as many failures as resets")
        await wait_until(lambda: stand_in_fleet.counts(0), "nothing is open")
        assert await failures(stand_in_fleet, first) == len(first.received)
        for backend in others:
            assert await failures(stand_in_fleet, backend) == 0
    print(f"{len(first.received)} resets of {REQUESTS} requests")


async def test_the_only_listed_node_failed_when_envoy_chose_another(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    resetting = await start_backend("resetting")
    others = [await start_backend(f"other-{number}") for number in (1, 2)]
    ads.publish(serving(resetting, *others))
    envoy = start_envoy(local_bootstrap(ads.port))
    await wait_for_members(envoy, total=3, healthy=3)
    rows = [Row(resetting), *(Row(other, weight=0.0) for other in others)]
    async with FleetFeed(ads, rows):
        await wait_until(lambda: picks(client, envoy), "the filter picks")
        resetting.answer = reset
        resetting.received.clear()
        assert await ask(client, envoy, 100) == {200}
        # Once in a while all of Envoy's redraws give the node that failed: nobody listed that.
        again = len(resetting.received) - 100
        assert again >= 0
        seen = ads.observations
        await wait_until(lambda: seen.total(resetting.node, "failed_attempts") >= 100, "failures")
        await wait_until(
            lambda: sum(seen.total(other.node, "started") for other in others) >= 100,
            "the requests are counted where they were served",
        )
        nodes = [backend.node for backend in (resetting, *others)]
        await wait_until(lambda: not any(map(seen.in_flight, nodes)), "nothing is open")
    assert seen.total(resetting.node, "failed_attempts") == 100
    assert sum(seen.total(node, "unknown_attempts") for node in nodes) == again


async def ask(client: aiohttp.ClientSession, envoy: Envoy, count: int) -> set[int]:
    """Send that many requests; their statuses."""
    left = iter(range(count))

    async def worker() -> set[int]:
        return {(await post(client, envoy))[0] for _ in left}

    return set().union(*await asyncio.gather(*(worker() for _ in range(CONCURRENCY))))


async def picks(client: aiohttp.ClientSession, envoy: Envoy) -> bool:
    before = len(envoy.access_log())
    await post(client, envoy)
    entry = (await envoy.logged(before + 1))[-1]
    return decision_fields(entry)["reason"] == "picked"


async def failures(fleet: StandInFleet, backend: Backend) -> int:
    """What the control plane holds against the node."""
    outcomes = await fleet.outcomes(backend.name)
    return sum(outcomes[kind] for kind in ("failed_attempts", "resets"))
