"""The fake node from outside: OpenAI's interface, vLLM's metrics, and the orders of a test."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from isocost.errors import StartError
from isocost.fake.models import model_named
from isocost.fake.server import MAX_BODY_BYTES, start
from isocost.telemetry.engines.vllm import read_page
from tests.unit.fake.node_client import MODEL, NodeClient, running, settings, until

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
MAX_LENGTH_TOKENS = model_named(MODEL).max_length_tokens
FAMILIES = Path(__file__).parents[2] / "data" / "metrics-vllm" / "vllm-0.26.0-families.txt"


def chat(content: str = "x" * 400, **more: object) -> dict[str, object]:
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **more}


@pytest.fixture
async def node() -> AsyncIterator[NodeClient]:
    async with running() as client:
        yield client


async def test_an_answer_in_one_piece_has_the_asked_length_and_usage(node: NodeClient) -> None:
    status, answer = await node.post(CHAT, chat(max_tokens=12))
    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["system_fingerprint"] == "n1"
    assert answer["usage"] == {
        "prompt_tokens": 104,
        "completion_tokens": 12,
        "total_tokens": 116,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    choice = answer["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(choice["message"]["content"]) == 48


async def test_a_text_completion_counts_text_and_token_numbers(node: NodeClient) -> None:
    _, by_text = await node.post(TEXT, {"model": MODEL, "prompt": "x" * 41, "max_tokens": 3})
    _, by_number = await node.post(TEXT, {"model": MODEL, "prompt": [[5] * 9]})
    assert by_text["object"] == "text_completion"
    assert by_text["usage"]["prompt_tokens"] == 11
    assert by_number["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 16,
        "total_tokens": 25,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


async def test_a_conversation_that_goes_on_finds_its_prefix_cached(node: NodeClient) -> None:
    first = {"role": "user", "content": "x" * 1000}
    more = [{"role": "assistant", "content": "y" * 200}, {"role": "user", "content": "z" * 200}]
    _, before = await node.post(CHAT, {"messages": [first], "max_tokens": 1})
    events = await node.events(
        CHAT,
        {
            "messages": [first, *more],
            "max_tokens": 1,
            "stream_options": {"include_usage": True},
        },
    )
    assert before["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    usage = json.loads(events[-2])["usage"]
    # 254 tokens of the first message, in full blocks of 16.
    assert usage["prompt_tokens_details"] == {"cached_tokens": 240}


async def test_the_blocks_of_a_trace_can_stand_for_the_prompt(node: NodeClient) -> None:
    def body(hashes: list[int]) -> dict[str, object]:
        given = {"tokens": 1600, "block_tokens": 512, "block_hashes": hashes}
        return {"fake_prompt": given, "max_tokens": 1}

    cached = []
    for hashes in ([1, 2, 3, 4], [1, 2, 5, 6]):
        _, answer = await node.post(CHAT, body(hashes))
        assert answer["usage"]["prompt_tokens"] == 1600
        cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached == [0, 1024]


async def test_the_model_is_served_under_the_name_it_was_given() -> None:
    async with running(served_model_name="chat") as node:
        status, answer = await node.post(CHAT, {**chat(max_tokens=1), "model": "chat"})
        assert status == 200 and answer["model"] == "chat"
        assert (await node.post(CHAT, chat()))[0] == 404
        (entry,) = json.loads((await node.get("/v1/models"))[1])["data"]
    assert entry["id"] == "chat" and entry["root"] == MODEL


async def test_a_stream_comes_in_few_pieces_and_ends_with_usage_and_done(
    node: NodeClient,
) -> None:
    events = await node.events(CHAT, chat(max_tokens=30, stream_options={"include_usage": True}))
    assert events[-1] == "[DONE]"
    *pieces, usage = [json.loads(event) for event in events[:-1]]
    assert len(pieces) == 8
    assert pieces[0]["choices"][0]["delta"]["role"] == "assistant"
    assert all("role" not in piece["choices"][0]["delta"] for piece in pieces[1:])
    text = "".join(piece["choices"][0]["delta"]["content"] for piece in pieces)
    assert len(text) == 4 * 30
    reasons = [piece["choices"][0]["finish_reason"] for piece in pieces]
    assert reasons == [None] * 7 + ["length"]
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 30


async def test_a_stream_tells_no_usage_unless_asked(node: NodeClient) -> None:
    events = await node.events(TEXT, {"prompt": "hello", "max_tokens": 3})
    assert [json.loads(event)["choices"][0]["text"] for event in events[:-1]]
    assert len(events) == 4 and not any("usage" in event for event in events)


async def test_token_by_token_gives_one_event_a_token() -> None:
    async with running(stream_chunks=None) as node:
        events = await node.events(CHAT, chat(max_tokens=20))
    assert len(events) == 21


async def test_the_head_of_a_stream_comes_before_its_first_token(node: NodeClient) -> None:
    body = chat(max_tokens=1, stream=True, fake_first_token_delay_s=30)
    async with node.session.post(node.url + CHAT, json=body) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        (CHAT, b"{", 400, "(body)"),
        (CHAT, b"[]", 400, "(body)"),
        (CHAT, b'{"messages": NaN}', 400, "(body)"),
        (CHAT, b"[" * 100_000, 400, "(body)"),
        (CHAT, {"model": MODEL}, 400, "messages"),
        (CHAT, {"messages": []}, 400, "messages"),
        (CHAT, {"messages": [{"content": "x"}]}, 400, "messages.0"),
        (CHAT, {"messages": [{"role": "user", "content": 5}]}, 400, "messages.0.content"),
        (CHAT, chat(max_tokens=0), 400, "max_tokens"),
        (CHAT, chat(max_tokens=True), 400, "max_tokens"),
        (CHAT, chat(max_completion_tokens="9"), 400, "max_completion_tokens"),
        (CHAT, chat(max_tokens=MAX_LENGTH_TOKENS), 400, "messages"),
        (CHAT, chat(stream="yes"), 400, "stream"),
        (CHAT, chat(stream_options={}), 400, "stream_options"),
        (CHAT, chat(n=2), 400, "n"),
        (CHAT, chat(fake_first_token_delay_s=-1), 400, "fake_first_token_delay_s"),
        (CHAT, chat(model="gpt-9"), 404, "model"),
        (TEXT, {"prompt": ["a", "b"]}, 400, "prompt"),
        (TEXT, {}, 400, "prompt"),
        ("/fake/faults", {"fault": "explode"}, 400, "fault"),
        ("/fake/faults", b"{", 400, "(body)"),
        ("/fake/telemetry", {"gpu": 1}, 400, "gpu"),
    ],
)
async def test_a_bad_request_is_refused_naming_the_field(
    node: NodeClient, path: str, body: object, status: int, field: str
) -> None:
    got, answer = await node.post(path, body)
    assert got == status
    error = answer["error"]
    assert error["param"] == field and error["code"] == status and error["message"]


async def test_a_body_beyond_the_longest_prompt_is_not_read(node: NodeClient) -> None:
    body = io.BytesIO(b'{"prompt": "%b"}' % (b"x" * MAX_BODY_BYTES))
    async with node.session.post(node.url + TEXT, data=body) as response:
        assert response.status == 413
        assert (await response.json())["error"]["code"] == 413


async def test_an_unknown_path_is_answered_in_the_same_shape(node: NodeClient) -> None:
    status, text = await node.get("/v1/nothing")
    assert status == 404 and json.loads(text)["error"]["code"] == 404


async def test_models_and_health(node: NodeClient) -> None:
    status, text = await node.get("/v1/models")
    (model,) = json.loads(text)["data"]
    assert status == 200 and model["id"] == MODEL
    assert type(model["created"]) is int
    assert await node.get("/health") == (200, "")


async def test_a_client_that_hangs_up_frees_its_sequence(node: NodeClient) -> None:
    async with node.session.post(
        node.url + CHAT, json=chat(max_tokens=50_000, stream=True)
    ) as response:
        await response.content.readany()
        assert await node.metric("vllm:num_requests_running") == 1
    await until(lambda: _is(node, "vllm:num_requests_running", 0))
    assert await node.metric("vllm:kv_cache_usage_perc") == 0


async def test_a_client_that_hangs_up_before_the_first_token_leaves_the_queue(
    node: NodeClient,
) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await node.session.post(
            node.url + CHAT,
            json=chat(fake_first_token_delay_s=60),
            timeout=aiohttp.ClientTimeout(total=0.1),
        )
    await until(lambda: _is(node, "vllm:num_requests_waiting", 0))


async def _is(node: NodeClient, name: str, value: float) -> bool:
    return await node.metric(name) == value


async def test_metrics_have_current_names_and_the_agent_reads_them(node: NodeClient) -> None:
    await node.post(CHAT, chat(max_tokens=4))
    _, page = await node.get("/metrics")
    known = dict(line.split() for line in FAMILIES.read_text().splitlines() if line[0] != "#")
    families = {line.split()[2]: line.split()[3] for line in page.splitlines() if "# TYPE" in line}
    ours = {name: kind for name, kind in families.items() if not name.endswith("_created")}
    assert ours.pop("process_start_time_seconds") == "gauge"
    assert ours.items() <= known.items()
    assert "vllm:time_to_first_token_seconds" in ours
    engine = read_page(page)
    assert engine.sample.prompt_tokens_total.value == 104
    assert engine.sample.generation_tokens_total.value == 4
    assert engine.sample.kv_pool_tokens.value == 441_808
    assert engine.started_unix_s is not None
    assert 'vllm:request_success_total{engine="0"' in page


async def test_orders_reach_both_pages(node: NodeClient) -> None:
    await node.post("/fake/telemetry", {"free_vram_fraction": 0.1, "waiting": "absent"})
    assert await node.metric("vllm:kv_cache_usage_perc") == pytest.approx(0.9913, abs=1e-4)
    assert await node.metric("vllm:num_requests_waiting") is None
    assert await node.metric("vllm:num_requests_running") == 0


async def test_three_hundred_streams_at_once_all_end_well(node: NodeClient) -> None:
    answers = await asyncio.gather(
        *(node.events(CHAT, chat("hello", max_tokens=8)) for _ in range(300))
    )
    assert all(events[-1] == "[DONE]" for events in answers)
    assert await node.metric("vllm:request_success_total") == 300


async def test_a_taken_port_is_an_error_that_names_the_port_and_the_flag(
    node: NodeClient,
) -> None:
    with pytest.raises(StartError, match=rf"127.0.0.1:{node.port} is in use.*--listen"):
        await start(settings(port=node.port))
