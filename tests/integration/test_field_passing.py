"""What passes the filter reaches the node as it was sent, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from itertools import count

import aiohttp
import pytest

from isocost.config import FilterSettings
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import status
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import post
from tests.integration.harness.memory import rss_kb
from tests.integration.harness.picking import picking_envoy

BODIES = {
    "empty": b"",
    "cut json": b'{"model": "llama", "messages": [{"role": "us',
    "every byte": bytes(range(256)) * 100,
    "json with space": b' {"model" :"a",\r\n"model":"b" }\n',
}
SESSION_BYTES = 8_000
REQUESTS = 3_000
#: A quarter of what their identities alone would take if they were kept.
GROWTH_LIMIT_KB = SESSION_BYTES * REQUESTS // 1024 // 4


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_reaches_the_node_byte_for_byte_under_its_own_length(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    name: str,
) -> None:
    backend = await start_backend("node-1")
    async with FleetFeed(ads, [Row(backend)]):
        envoy = await picking_envoy(start_envoy, ads, client, [backend])
        assert (await post(client, envoy, body=BODIES[name]))[0] == 200
    (request,) = backend.received
    assert request.body == BODIES[name]
    assert request.headers["content-length"] == str(len(BODIES[name]))
    assert "transfer-encoding" not in request.headers


async def test_a_third_attempt_has_the_headers_of_the_first(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backends = [await start_backend(f"node-{number}") for number in range(3)]
    rows = [Row(backend, entropy=float(number)) for number, backend in enumerate(backends)]
    async with FleetFeed(ads, rows):
        settings = FilterSettings(policy="min_entropy")
        envoy = await picking_envoy(start_envoy, ads, client, backends, settings)
        for backend in backends[:2]:
            backend.answer = status(503)
        headers = [("x-forwarded-host", "llm.example"), ("x-forwarded-for", "203.0.113.9")]
        assert (await post(client, envoy, headers))[0] == 200
    attempts = [backend.received for backend in backends]
    assert [len(received) for received in attempts] == [1, 1, 1]
    first, second, third = (sorted(received[0].headers.items()) for received in attempts)
    assert first == second == third
    assert attempts[2][0].headers.getall("x-forwarded-host") == ["llm.example"]


async def test_requests_of_distinct_sessions_and_models_leave_nothing_in_memory(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    backend = await start_backend("node-1")
    numbers = count()

    async def ask(session: aiohttp.ClientSession, requests: int) -> None:
        for _ in range(requests):
            unique = f"{next(numbers):08}" * (SESSION_BYTES // 8)
            body = f'{{"model": "{unique}"}}'.encode()
            assert (await post(session, envoy, [("x-session-id", unique)], body))[0] == 200
            backend.received.clear()

    async with FleetFeed(ads, [Row(backend)]), aiohttp.ClientSession() as kept:
        envoy = await picking_envoy(start_envoy, ads, client, [backend])
        await asyncio.gather(*(ask(kept, REQUESTS // 16) for _ in range(8)))
        before_kb = rss_kb(envoy.pid)
        await asyncio.gather(*(ask(kept, REQUESTS // 8) for _ in range(8)))
        growth_kb = rss_kb(envoy.pid) - before_kb
    print("grew by", growth_kb, "KB; requests carried", SESSION_BYTES * REQUESTS // 1024, "KB")
    assert growth_kb < GROWTH_LIMIT_KB
