"""OpenAI's own Python client through Envoy: every failure is an exception of its types, with what
the filter or the engine said.
"""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.integration.harness.envoy import Envoy
from tests.integration.harness.fleet import MODEL, Fleet, break_node, heal_node
from tests.integration.harness.openai_client import connect, error_of

MESSAGES = [{"role": "user", "content": "hello"}]
ASKED: dict[str, Any] = {"model": MODEL, "messages": MESSAGES, "max_tokens": 4}
#: Longer than any model's context.
TOO_MANY = 10**6
LONG: dict[str, Any] = {**ASKED, "max_tokens": 2_000, "stream": True}


@pytest.fixture
async def gateway(fleet: Fleet) -> Fleet:
    await fleet.start(1, "equal_cost", "--stream-chunks", "token")
    return fleet


def failure(
    envoy: Envoy, kind: type[openai.APIStatusError], **more: object
) -> openai.APIStatusError:
    """The exception of a chat."""
    with connect(envoy) as client, pytest.raises(kind) as caught:
        client.chat.completions.create(**{**ASKED, **more})
    assert type(caught.value) is kind
    return caught.value


async def test_what_is_refused_is_an_exception_of_its_status(gateway: Fleet) -> None:
    envoy = gateway.envoy
    before = len(envoy.access_log())
    unknown = failure(envoy, openai.NotFoundError, model="gpt-9")
    assert error_of(unknown) == {
        "message": f"The model 'gpt-9' does not exist. Served here: {MODEL}",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    # Streamed or not: it never becomes a stream.
    streamed = failure(envoy, openai.NotFoundError, model="gpt-9", stream=True)
    assert error_of(streamed) == error_of(unknown)

    too_long = failure(envoy, openai.BadRequestError, max_tokens=TOO_MANY)
    assert "maximum context length is 131072 tokens" in str(error_of(too_long)["message"])
    assert (too_long.param, too_long.code, too_long.type) == ("messages", "400", "BadRequestError")

    await break_node(gateway.session, gateway.nodes[0], "status", status=429, requests=1)
    full = failure(envoy, openai.RateLimitError)
    assert error_of(full)["type"] == "Too Many Requests"

    entries = (await envoy.logged(before + 4))[before:]
    assert [entry["status"] for entry in entries] == [404, 404, 400, 429]
    found = [unknown, streamed, too_long, full]
    assert [error.request_id for error in found] == [entry["request_id"] for entry in entries]


async def test_a_stream_that_breaks_off_ends_in_an_exception(gateway: Fleet) -> None:
    node = gateway.nodes[0]
    with connect(gateway.envoy) as client:
        await break_node(gateway.session, node, "reset", chunks=3)
        with client.chat.completions.create(**LONG) as stream:
            assert next(stream).choices[0].delta.content
            with pytest.raises(openai.APIConnectionError):
                list(stream)
        await heal_node(gateway.session, node)

        with client.chat.completions.create(**LONG) as stream:
            assert next(stream).choices[0].delta.content
            # An engine that dies says so in its streams.
            await break_node(gateway.session, node, "restart", down_s=0.5)
            with pytest.raises(openai.APIError) as caught:
                list(stream)
        assert type(caught.value) is openai.APIError
        assert error_of(caught.value)["type"] == "InternalServerError"
