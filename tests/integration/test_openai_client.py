"""OpenAI's own Python client through Envoy: every answer is an object of its own types."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from openai.types import Completion, CompletionUsage, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.integration.harness.fleet import MODEL, Fleet, decision_fields
from tests.integration.harness.openai_client import connect, connect_async

TOKENS = 12
#: Enough that both workers of Envoy and both nodes get some.
AT_ONCE = 40
ASKED: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Why is the sky blue?"}],
    "max_tokens": TOKENS,
}
PROMPT: dict[str, Any] = {"model": MODEL, "prompt": "The sky is", "max_tokens": TOKENS}
STREAMED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture
async def gateway(fleet: Fleet) -> Fleet:
    await fleet.start(2, "equal_cost")
    return fleet


def counts_all(usage: CompletionUsage | None) -> bool:
    return (
        usage is not None
        and usage.completion_tokens == TOKENS
        and usage.total_tokens == usage.prompt_tokens + TOKENS
        and usage.prompt_tokens_details is not None
    )


def text_of(chunks: Sequence[ChatCompletionChunk]) -> str:
    """Of a stream that ends with its usage, and has it nowhere else."""
    *pieces, last = chunks
    assert all(type(chunk) is ChatCompletionChunk for chunk in chunks)
    assert not any(piece.usage for piece in pieces)
    assert last.choices == [] and counts_all(last.usage)
    choices = [piece.choices[0] for piece in pieces]
    assert [choice.finish_reason for choice in choices] == [None] * (len(pieces) - 1) + ["length"]
    assert choices[0].delta.role == "assistant"
    return "".join(choice.delta.content or "" for choice in choices)


async def test_the_client_gets_each_answer_as_an_object_of_its_type(gateway: Fleet) -> None:
    envoy = gateway.envoy
    before = len(envoy.access_log())
    with connect(envoy) as client:
        chat = client.chat.completions.create(**ASKED)
        assert type(chat) is ChatCompletion
        assert chat.choices[0].message.role == "assistant"
        assert len(chat.choices[0].message.content or "") == 4 * TOKENS
        assert chat.choices[0].finish_reason == "length" and counts_all(chat.usage)

        with client.chat.completions.create(**ASKED, **STREAMED) as stream:
            assert text_of(list(stream)) == chat.choices[0].message.content

        completion = client.completions.create(**PROMPT)
        assert type(completion) is Completion
        assert len(completion.choices[0].text) == 4 * TOKENS and counts_all(completion.usage)

        # The types have no piece before the last, which alone says why it ends; OpenAI's own
        # streams are not so either.
        with (
            connect(envoy, _strict_response_validation=False) as lenient,
            lenient.completions.create(**PROMPT, **STREAMED) as stream,
        ):
            *pieces, last = stream
        assert {type(piece) for piece in (*pieces, last)} == {Completion}
        assert "".join(piece.choices[0].text for piece in pieces) == completion.choices[0].text
        assert pieces[-1].choices[0].finish_reason == "length" and counts_all(last.usage)

        (model,) = client.models.list()
        assert type(model) is Model and model.id == MODEL
    entries = (await envoy.logged(before + 5))[before:]
    assert {decision_fields(entry)["reason"] for entry in entries} == {"picked"}
    # By it an answer is found in the access log.
    assert [chat._request_id, completion._request_id] == [
        entries[0]["request_id"],
        entries[2]["request_id"],
    ]


async def test_the_asyncio_client_gets_as_much_from_many_requests_at_once(gateway: Fleet) -> None:
    envoy = gateway.envoy
    before = len(envoy.access_log())

    async with connect_async(envoy) as client:

        async def ask(number: int) -> str:
            """Alternately in one piece and streamed."""
            if number % 2:
                answer = await client.chat.completions.create(**ASKED)
                assert type(answer) is ChatCompletion and counts_all(answer.usage)
                return answer.choices[0].message.content or ""
            async with await client.chat.completions.create(**ASKED, **STREAMED) as stream:
                return text_of([chunk async for chunk in stream])

        texts = await asyncio.gather(*map(ask, range(AT_ONCE)))
        assert len(set(texts)) == 1 and len(texts[0]) == 4 * TOKENS
        completion = await client.completions.create(**PROMPT)
        assert type(completion) is Completion and counts_all(completion.usage)
        assert [model.id async for model in client.models.list()] == [MODEL]
    entries = (await envoy.logged(before + AT_ONCE + 2))[before:]
    assert [entry["status"] for entry in entries] == [200] * (AT_ONCE + 2)
    assert {entry["node"] for entry in entries} == {"node-1", "node-2"}
