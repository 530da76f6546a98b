"""A connection to the control plane that swallows all: Envoy notices, connects anew, serves on."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import aiohttp

from isocost.push.options import KEEPALIVE_INTERVAL_MS, KEEPALIVE_TIMEOUT_MS
from tests.contract.relay import relay_to
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.filters import without_filter
from tests.integration.harness.gateway import post, serving, wait_for_members
from tests.integration.harness.wait import wait_until

#: As the keep-alive promises, and Envoy spreads its pings by 15 %.
NOTICED_S = 10.0
#: A tenth of what is shipped, so that the test is short.
FASTER = 10
#: Those of ten minutes; each is a frame of so many bytes.
PINGS, PING_BYTES = 120, 17


async def test_envoy_notices_a_silent_control_plane_and_connects_anew(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    first, second = await start_backend("first"), await start_backend("second")
    ads.publish(serving(first))
    async with relay_to("127.0.0.1", ads.port) as relay:
        data = local_bootstrap(relay.port)
        shipped = keep_alive(data)
        assert shipped == {"interval": "5s", "timeout": "3s"}
        assert KEEPALIVE_INTERVAL_MS + KEEPALIVE_TIMEOUT_MS == 8_000
        shipped |= {"interval": f"{5 / FASTER}s", "timeout": f"{3 / FASTER}s"}
        envoy = start_envoy(data)
        await wait_for_members(envoy, 1, 1)
        relay.silent()
        silent_s = time.monotonic()
        ads.publish(serving(first, second))
        # Only a connection that was made since can bring the second node.
        await wait_for_members(envoy, 2, 2)
        assert time.monotonic() - silent_s < NOTICED_S / FASTER + 1.0
        assert await timeouts(envoy) >= 1
        assert (await post(client, envoy))[0] == 200


def keep_alive(data: dict[str, Any]) -> dict[str, str]:
    """That of the connection to the control plane, to be changed in place."""
    (cluster,) = data["static_resources"]["clusters"]
    (options,) = cluster["typed_extension_protocol_options"].values()
    held: dict[str, str] = options["explicit_http_config"]["http2_protocol_options"][
        "connection_keepalive"
    ]
    return held


async def timeouts(envoy: Envoy) -> int:
    stats = await envoy.stats("^cluster.isocost_control_plane.http2.keepalive_timeout$")
    return sum(stats.values())


async def test_idle_connection_with_fast_pings_stays_up(
    start_envoy: StartEnvoy, start_backend: StartBackend, ads: AdsServer
) -> None:
    ads.publish(serving(await start_backend("node-1")))
    # Nothing but pings is said on the connection once Envoy has its configuration.
    data = without_filter(local_bootstrap(ads.port))
    keep_alive(data)["interval"] = "0.01s"
    envoy = start_envoy(data)
    await wait_for_members(envoy, 1, 1)
    before = await endings(envoy)
    enough = await sent_bytes(envoy) + PINGS * PING_BYTES
    await wait_until(partial(sent_so_much, envoy, enough), f"{PINGS} pings")
    assert await endings(envoy) == before


async def endings(envoy: Envoy) -> dict[str, int]:
    """What a connection that ends, or begins anew, would be counted in."""
    return await envoy.stats(
        "^cluster.isocost_control_plane."
        "(upstream_cx_total|upstream_cx_destroy|upstream_cx_close_notify|http2.keepalive_timeout)$"
    )


async def sent_bytes(envoy: Envoy) -> int:
    stats = await envoy.stats("^cluster.isocost_control_plane.upstream_cx_tx_bytes_total$")
    return sum(stats.values())


async def sent_so_much(envoy: Envoy, count: int) -> bool:
    return await sent_bytes(envoy) >= count
