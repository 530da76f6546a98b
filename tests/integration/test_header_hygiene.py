"""The destination header belongs to the filter: clients cannot use it, engines never see it."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from isocost.model import NodeState
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.endpoints import NodeEndpoint
from tests.integration.harness.envoy import local_bootstrap
from tests.integration.harness.filters import steered_by, without_filter
from tests.integration.harness.gateway import post, serving, wait_for_members

_HEADER = "x-isocost-destination"
_REQUESTS = 20
_STEERED = 1_000
_AT_ONCE = 20


@pytest.mark.parametrize("with_filter", [True, False], ids=["filter", "no filter"])
async def test_a_clients_own_destination_is_neither_obeyed_nor_passed_on(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    with_filter: bool,
) -> None:
    # Only the header could lead to an ejected node: the fallback obeys its state.
    wanted, other = await start_backend("wanted"), await start_backend("other")
    ads.publish([NodeEndpoint(wanted.node, NodeState.EJECTED), *serving(other)])
    data = local_bootstrap(ads.port)
    envoy = start_envoy(data if with_filter else without_filter(data))
    await wait_for_members(envoy, total=2, healthy=1)
    for number in range(_REQUESTS):
        name = _HEADER if number % 2 else _HEADER.title()
        destinations = [(name, wanted.address), (name, f"{wanted.address},{other.address}")]
        assert (await post(client, envoy, destinations))[0] == 200
    assert not wanted.received
    assert len(other.received) == _REQUESTS
    assert not any(_HEADER in request.headers for request in other.received)


async def test_our_destination_steers_and_does_not_reach_the_engine(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backends = [await start_backend(f"node-{number}") for number in range(3)]
    ads.publish(serving(*backends))
    envoy = start_envoy(steered_by(local_bootstrap(ads.port), "x-test-destination"))
    await wait_for_members(envoy, total=3, healthy=3)
    chosen = backends[2]
    left = iter(range(_STEERED))

    async def ask() -> None:
        for _ in left:
            assert (await post(client, envoy, [("x-test-destination", chosen.address)]))[0] == 200

    await asyncio.gather(*(ask() for _ in range(_AT_ONCE)))
    assert [len(backend.received) for backend in backends] == [0, 0, _STEERED]
    assert not any(_HEADER in request.headers for request in chosen.received)


async def test_a_client_cannot_change_retries_timeouts_or_its_address_by_envoys_own_headers(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backend = await start_backend("node-1")
    ads.publish(serving(backend))
    envoy = start_envoy(without_filter(local_bootstrap(ads.port)))
    await wait_for_members(envoy, total=1, healthy=1)
    headers = [
        ("x-envoy-max-retries", "7"),
        ("x-envoy-retry-on", "retriable-4xx"),
        ("x-envoy-upstream-rq-timeout-ms", "1"),
    ]
    forged = [*headers, ("x-forwarded-for", "203.0.113.9")]
    assert (await post(client, envoy, forged))[0] == 200
    (request,) = backend.received
    assert not {name for name, _ in headers} & {name.lower() for name in request.headers}
    (entry,) = await envoy.logged(1)
    assert entry["client"].startswith("127.0.0.1:")
