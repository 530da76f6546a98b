"""OpenAI's own Python client asks for tools: what it sends reaches the engine byte by byte, and
calls come back as objects of its types.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDict
from openai import DefaultAsyncHttpx2Client
from openai.types.chat import ChatCompletion, ChatCompletionMessageFunctionToolCall

from tests.integration.conftest import StartBackend
from tests.integration.harness.backend import Backend
from tests.integration.harness.fleet import MODEL
from tests.integration.harness.openai_client import connect_async
from tests.integration.harness.stand_in_fleet import StandInFleet

PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ARGUMENTS = '{"city": "K\u00f6ln"}'
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": ARGUMENTS},
}
ASKED: dict[str, Any] = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "You know the weather."},
        {"role": "user", "content": [{"type": "text", "text": "How is it in K\u00f6ln?"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"rain": true}'},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "get_weather", "strict": True, "parameters": PLACE},
        }
    ],
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "parallel_tool_calls": False,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "place", "strict": True, "schema": PLACE},
    },
    "seed": 7,
    "logit_bias": {"11": -100},
}
#: What OpenAI's API does not have and engines do.
EXTRA = {"top_k": 20, "chat_template_kwargs": {"thinking": False}}
HEAD = {"id": "1", "created": 1, "model": MODEL}


async def calls_the_tool(request: web.Request) -> web.StreamResponse:
    """An engine that answers with the call, streamed in three pieces if asked to."""
    asked = await request.json()
    if not asked.get("stream"):
        message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
        return web.json_response({**HEAD, "object": "chat.completion", "choices": [choice]})
    response = web.StreamResponse(headers=CIMultiDict({"content-type": "text/event-stream"}))
    await response.prepare(request)
    first = {**CALL, "function": {"name": "get_weather", "arguments": ARGUMENTS[:5]}}
    for call, reason in (
        ({"index": 0, **first}, None),
        ({"index": 0, "function": {"arguments": ARGUMENTS[5:]}}, None),
        (None, "tool_calls"),
    ):
        delta = {"tool_calls": [call]} if call else {}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        event = {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


@pytest.fixture
async def engine(start_backend: StartBackend) -> Backend:
    return await start_backend("node-1")


async def test_requests_with_tools_and_the_calls_that_answer_them_pass_unchanged(
    stand_in_fleet: StandInFleet, engine: Backend
) -> None:
    sent: list[bytes] = []

    async def note(request: Any) -> None:
        sent.append(request.content)

    noting = DefaultAsyncHttpx2Client(event_hooks={"request": [note]})
    async with stand_in_fleet.running([engine]):
        engine.answer = calls_the_tool
        async with connect_async(stand_in_fleet.envoy, http_client=noting) as client:
            answer = await client.chat.completions.create(**ASKED, extra_body=EXTRA)
            async with client.chat.completions.stream(**ASKED, extra_body=EXTRA) as stream:
                streamed = await stream.get_final_completion()
        received = list(engine.received)
    assert type(answer) is ChatCompletion
    for choice in (*answer.choices, *streamed.choices):
        assert choice.finish_reason == "tool_calls" and choice.message.content is None
        (call,) = choice.message.tool_calls or ()
        assert isinstance(call, ChatCompletionMessageFunctionToolCall)
        assert (call.id, call.function.name) == (CALL["id"], "get_weather")
        assert call.function.arguments == ARGUMENTS

    assert [item.body for item in received] == sent
    assert json.loads(sent[0]) == {**ASKED, **EXTRA}
    assert {item.path for item in received} == {"/v1/chat/completions"}
    assert {item.headers["authorization"] for item in received} == {"Bearer any"}
