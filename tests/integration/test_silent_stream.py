"""A stream that waits long for its first token, and between tokens, is left alone."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web

from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.envoy import local_bootstrap
from tests.integration.harness.filters import without_filter
from tests.integration.harness.gateway import COMPLETIONS, serving, wait_for_members

# Longer than any time limit for connections without a request (4 s towards the nodes).
_SILENCE_S = 5.0


async def _two_silences(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(_SILENCE_S)
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"data: first\n\n")
    await asyncio.sleep(_SILENCE_S)
    await response.write(b"data: [DONE]\n\n")
    return response


async def test_silence_before_and_between_tokens_does_not_end_a_stream(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    ads.publish(serving(await start_backend("slow", answer=_two_silences)))
    envoy = start_envoy(without_filter(local_bootstrap(ads.port)))
    await wait_for_members(envoy, total=1, healthy=1)
    async with client.post(envoy.url + COMPLETIONS) as response:
        assert response.status == 200
        assert await response.read() == b"data: first\n\ndata: [DONE]\n\n"
