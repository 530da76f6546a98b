"""A chosen node that has just left Envoy's cluster: another one serves, and it is counted."""

from __future__ import annotations

import aiohttp

from isocost.config import FilterSettings
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import status
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import post, serving, wait_for_members
from tests.integration.harness.picking import picking_envoy
from tests.integration.harness.wait import wait_until

REQUESTS = 20


async def test_a_node_that_only_the_table_still_has_is_passed_over_and_counted(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    gone, second, third = [await start_backend(name) for name in ("gone", "second", "third")]
    # The order in which each request lists them.
    rows = [Row(backend, entropy=place) for place, backend in enumerate((gone, second, third))]
    seen = ads.observations
    async with FleetFeed(ads, rows):
        envoy = await picking_envoy(
            start_envoy,
            ads,
            client,
            [gone, second, third],
            FilterSettings(policy="min_entropy", projection=False, dispersion=False),
        )
        for _ in range(REQUESTS):
            assert (await post(client, envoy))[0] == 200
        assert len(gone.received) == REQUESTS

        ads.publish_endpoints(serving(second, third))
        await wait_for_members(envoy, total=2, healthy=2)
        for _ in range(REQUESTS):
            assert (await post(client, envoy))[0] == 200
        assert len(second.received) == REQUESTS
        await wait_until(lambda: seen.stale_choices >= REQUESTS, "the stale choices are counted")

        # Behind a failure as well: the list goes on where Envoy can go on.
        ads.publish_endpoints(serving(gone, third))
        await wait_for_members(envoy, total=2, healthy=2)
        gone.answer = status(503)
        for _ in range(REQUESTS):
            assert (await post(client, envoy))[0] == 200
        assert len(third.received) == REQUESTS
        await wait_until(
            lambda: seen.stale_choices >= 2 * REQUESTS, "the stale alternates are counted"
        )

        await wait_until(
            lambda: seen.total(third.node, "started") >= REQUESTS, "all requests are counted"
        )
    # Those that went where they should are not among them, and nobody is blamed.
    assert seen.stale_choices == 2 * REQUESTS
    assert [seen.total(row.backend.node, "failed_attempts") for row in rows] == [0, 0, 0]
    stats = await envoy.stats("^wasmcustom.isocost.stale_choices$")
    assert stats == {"wasmcustom.isocost.stale_choices": 2 * REQUESTS}
