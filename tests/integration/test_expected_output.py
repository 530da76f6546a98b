"""A user whose answers are long is expected to get long ones, and nobody else is."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from isocost.model import Model
from tests.integration.conftest import StartBackend
from tests.integration.harness.fleet import MODEL, decision_fields
from tests.integration.harness.gateway import post
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

LONG, SHORT = 3_000, 40
#: Nobody has answered yet: the filter's own.
UNKNOWN = 256
#: What a byte on the wire rounds to.
STEP = 2 ** (1 / 16)


async def by_user(request: web.Request) -> web.StreamResponse:
    """An engine whose answers are as long as the user's name says; streamed if asked to."""
    asked = await request.json()
    tokens = {"talker": LONG, "quiet": SHORT}.get(asked.get("user"))
    usage = tokens and {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": tokens + 9}
    if not asked.get("stream"):
        return web.json_response({"object": "chat.completion", "usage": usage})
    response = web.StreamResponse(headers=CIMultiDict({"content-type": "text/event-stream"}))
    await response.prepare(request)
    delta = {"choices": [{"index": 0, "delta": {"content": "word"}}]}
    for event in (delta, {"choices": [], "usage": usage}):
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


async def test_a_users_answers_tell_how_long_the_next_one_will_be(
    stand_in_fleet: StandInFleet, start_backend: StartBackend, client: aiohttp.ClientSession
) -> None:
    backends = [await start_backend(f"node-{number}") for number in (1, 2)]
    for backend in backends:
        backend.traits = {"models": (Model(MODEL, aliases=("other-name",)),)}
        backend.answer = by_user

    async def expected(**more: Any) -> int:
        """Ask; how many tokens of answer the filter expected."""
        before = len(stand_in_fleet.envoy.access_log())
        asked = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], **more}
        code, _ = await post(client, stand_in_fleet.envoy, body=json.dumps(asked).encode())
        assert code == 200
        (entry,) = (await stand_in_fleet.envoy.logged(before + 1))[before:]
        return int(decision_fields(entry)["output_tokens"])

    async def follows(user: str, tokens: int, **more: Any) -> bool:
        return tokens / STEP <= await expected(user=user, **more) <= tokens * STEP

    async with stand_in_fleet.running(backends, policy="equal_cost"):
        assert await expected() == UNKNOWN
        for _ in range(20):
            await expected(user="talker")
            await expected(user="quiet", stream=True)
        await wait_until(lambda: follows("talker", LONG), "long answers are expected")
        await wait_until(lambda: follows("quiet", SHORT, stream=True), "short ones as well")
        # About as many of both were heard of.
        mean = (LONG + SHORT) / 2
        for more in ({}, {"user": "stranger"}, {"model": "other-name"}):
            assert mean / 1.2 <= await expected(**more) <= mean * 1.2, more
        # No answer is longer than it may be, ...
        assert await expected(user="talker", max_tokens=100) == 100
        assert await expected(user="talker", max_completion_tokens=70) == 70
        assert await follows("quiet", SHORT, max_tokens=100_000)
        # ... and of several each is as long.
        assert await follows("quiet", 3 * SHORT, n=3)
        assert await expected(user="talker", max_tokens=100, n=3) == 300
