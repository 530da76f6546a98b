"""OpenAI's own Python client that cannot be served yet: it is told so, and when to come again."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import openai
import pytest
from aiohttp import web
from openai import DefaultAsyncHttpx2Client
from openai.types.chat import ChatCompletion

from tests.integration.conftest import StartBackend
from tests.integration.harness.envoy import Envoy
from tests.integration.harness.fleet import MODEL, START_S, Fleet
from tests.integration.harness.openai_client import connect_async, error_of
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

ASKED: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "hello"}],
    "max_tokens": 4,
}
#: What the server says. Left alone, the client would come again within half a second.
RETRY_AFTER_S = 1
FULL = {"message": "Too many requests wait.", "type": "TooMany", "param": None, "code": "full"}
#: A retry each second, until the nodes of a busy machine are there.
RETRIES = 60


async def failure(envoy: Envoy, kind: type[openai.APIStatusError]) -> openai.APIStatusError:
    """The exception of a chat that is not tried again."""
    async with connect_async(envoy) as client:
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(**ASKED)
    assert type(caught.value) is kind
    assert caught.value.response.headers["retry-after"] == str(RETRY_AFTER_S)
    return caught.value


class Attempts:
    """What the client was answered, and when."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self._times_s: list[float] = []
        self.client = DefaultAsyncHttpx2Client(event_hooks={"response": [self._note]})

    async def _note(self, response: Any) -> None:
        self.statuses.append(response.status_code)
        self._times_s.append(asyncio.get_running_loop().time())

    @property
    def shortest_pause_s(self) -> float:
        return min(later - earlier for earlier, later in pairwise(self._times_s))


async def test_before_any_node_a_client_gets_503_and_its_answer_when_it_comes_again(
    fleet: Fleet,
) -> None:
    fleet.plan_nodes(1)
    envoy = fleet.start_gateway()
    await envoy.wait_live()
    found = await failure(envoy, openai.InternalServerError)
    assert found.status_code == 503
    unknown = {"type": "server_error", "param": None, "code": "service_unavailable"}
    message = "The gateway does not know its nodes yet. Try again shortly."
    assert error_of(found) == {"message": message, **unknown}

    fleet.start_control_plane()

    async def nodeless() -> bool:
        message = "No node can take the request now. Try again shortly."
        found = await failure(envoy, openai.InternalServerError)
        return error_of(found) == {"message": message, **unknown}

    await wait_until(nodeless, "Envoy hears that there is no node", START_S)
    attempts = Attempts()
    async with connect_async(envoy, max_retries=RETRIES, http_client=attempts.client) as client:
        asked = asyncio.create_task(client.chat.completions.create(**ASKED))
        await wait_until(lambda: attempts.statuses, "the client is sent away")
        fleet.start_node(fleet.nodes[0])
        fleet.start_agent()
        assert type(await asked) is ChatCompletion
    *sent_away, last = attempts.statuses
    assert set(sent_away) == {503} and last == 200
    assert attempts.shortest_pause_s >= RETRY_AFTER_S


async def test_a_client_that_a_full_node_sends_away_comes_again_when_it_is_told_to(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    backend = await start_backend("node-1")
    left = 2

    async def full_at_first(_: web.Request) -> web.StreamResponse:
        nonlocal left
        left -= 1
        if left >= 0:
            headers = {"retry-after": str(RETRY_AFTER_S)}
            return web.json_response({"error": FULL}, status=429, headers=headers)
        message = {"role": "assistant", "content": "Hello."}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        head = {"id": "1", "object": "chat.completion", "created": 1, "model": MODEL}
        return web.json_response({**head, "choices": [choice]})

    async with stand_in_fleet.running([backend]):
        envoy = stand_in_fleet.envoy
        backend.answer = full_at_first
        assert error_of(await failure(envoy, openai.RateLimitError)) == FULL
        attempts = Attempts()
        async with connect_async(envoy, max_retries=1, http_client=attempts.client) as client:
            answer = await client.chat.completions.create(**ASKED)
        assert answer.choices[0].message.content == "Hello."
        assert attempts.statuses == [429, 200]
        assert attempts.shortest_pause_s >= RETRY_AFTER_S
