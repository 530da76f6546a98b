"""An Envoy whose filter picks from a test's own tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import aiohttp

from isocost.config import FilterSettings
from tests.integration.harness.ads import WEIGHTED_RANDOM, AdsServer
from tests.integration.harness.backend import Backend
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.fleet import table_of
from tests.integration.harness.gateway import post, serving, wait_for_members
from tests.integration.harness.wait import wait_until


async def picking_envoy(
    start_envoy: Callable[..., Envoy],
    ads: AdsServer,
    client: aiohttp.ClientSession,
    backends: Sequence[Backend],
    filter_settings: FilterSettings | None = None,
) -> Envoy:
    """An Envoy whose filter picks among the backends; they have received nothing."""
    ads.publish(serving(*backends), filter_settings=filter_settings)
    envoy = start_envoy(local_bootstrap(ads.port))
    await wait_for_members(envoy, len(backends), len(backends))
    policy = (filter_settings or WEIGHTED_RANDOM).policy
    sent = count(1)

    async def picks() -> bool:
        await post(client, envoy)
        last = (await envoy.logged(next(sent)))[-1]
        return f"policy={policy} reason=picked" in last["decision"]

    await wait_until(picks, "the filter picks")
    for backend in backends:
        backend.received.clear()
    return envoy


async def wait_for_table(client: aiohttp.ClientSession, envoy: Envoy, version: int) -> None:
    """Return when the filter picks from that table or a later one; Envoy has one worker."""

    async def arrived() -> bool:
        before = len(envoy.access_log())
        await post(client, envoy)
        return table_of((await envoy.logged(before + 1))[-1]) >= version

    await wait_until(arrived, f"table {version} is picked from")
