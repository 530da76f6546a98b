"""Every fault of a running node: its effect while it holds, and none after its end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from isocost.config import AgentNodeSettings
from isocost.fake.network import RETRANSMISSION_S
from isocost.model import SignalState
from isocost.telemetry.sampler import NodeSampler, sample_all
from isocost.telemetry.scrape import Pages
from tests.unit.fake.node_client import DEADLINE_S, MODEL, NodeClient, running, until

TEXT = "/v1/completions"
HUNG_UP = (aiohttp.ClientPayloadError, aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)
#: How long nobody listens: long enough to look at it on a busy machine.
DOWN_S = 3.0
RUNNING = "vllm:num_requests_running"
STARTED = "process_start_time_seconds"


def text(max_tokens: int = 1, **more: object) -> dict[str, object]:
    return {"model": MODEL, "prompt": "x" * 400, "max_tokens": max_tokens, **more}


@pytest.fixture
async def node() -> AsyncIterator[NodeClient]:
    async with running() as client:
        yield client


async def good(node: NodeClient) -> bool:
    """Does it answer a completion?"""
    try:
        return (await node.post(TEXT, text()))[0] == 200
    except aiohttp.ClientConnectionError:
        return False


async def refused(node: NodeClient) -> bool:
    """Does nobody listen there?"""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", node.port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


async def ended(node: NodeClient) -> bool:
    return await node.faults() == []


async def engine_s(node: NodeClient) -> float:
    """How long a completion of 10 tokens takes by the engine's own measure."""
    name = "vllm:e2e_request_latency_seconds_sum"
    before = await node.metric(name)
    assert (await node.post(TEXT, text(10)))[0] == 200
    after = await node.metric(name)
    assert before is not None and after is not None
    return after - before


async def test_a_slow_engine_takes_the_factor_times_as_long(node: NodeClient) -> None:
    await engine_s(node)  # the prompt is in the prefix cache from now on
    normal_s = await engine_s(node)
    await node.order("slow", factor=5)
    assert await engine_s(node) == pytest.approx(5 * normal_s, rel=0.05)
    await node.clear()
    assert await engine_s(node) == pytest.approx(normal_s, rel=0.05)


async def test_a_hung_engine_takes_requests_gives_no_token_and_looks_healthy(
    node: NodeClient,
) -> None:
    await node.order("hang")
    held = asyncio.create_task(node.post(TEXT, text(4)))
    done, _ = await asyncio.wait([held], timeout=0.2)
    assert not done
    assert await node.get("/health") == (200, "")
    assert await node.metric("vllm:generation_tokens_total") == 0
    await node.clear()
    status, answer = await held
    assert status == 200 and answer["usage"]["completion_tokens"] == 4


async def test_a_status_is_answered_at_once_in_the_shape_of_errors(node: NodeClient) -> None:
    await node.order("hang")
    await node.order("status", status=500)
    status, answer = await node.post(TEXT, text())
    assert status == 500
    assert answer["error"]["code"] == 500 and answer["error"]["type"] == "InternalServerError"
    assert await node.get("/health") == (200, "")
    await node.clear()
    assert await good(node)


async def test_a_status_holds_for_the_next_requests_only(node: NodeClient) -> None:
    await node.order("status", status=503, requests=2)
    assert [(await node.post(TEXT, text()))[0] for _ in range(3)] == [503, 503, 200]
    assert await ended(node)


async def test_another_status_in_between_does_not_count_as_one_of_the_requests(
    node: NodeClient,
) -> None:
    await node.order("status", status=503, requests=2)
    assert (await node.post(TEXT, text()))[0] == 503
    await node.order("status", status=500, requests=1)
    assert [(await node.post(TEXT, text()))[0] for _ in range(3)] == [500, 503, 200]


async def test_a_refusing_node_has_no_listener_but_its_open_streams_go_on(
    node: NodeClient,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    async with node.session.post(node.url + TEXT, json=text(100, stream=True)) as response:
        await node.order("refuse", for_s=DOWN_S)
        assert await refused(node)
        with pytest.raises(aiohttp.ClientConnectorError):
            await node.get("/health")
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.read() == b"", "the idle connection is closed"
        writer.close()
        assert (await response.text()).endswith("data: [DONE]\n\n")
    await until(lambda: good(node))
    assert await ended(node)


async def test_a_stream_is_reset_after_its_chunks(node: NodeClient) -> None:
    await node.order("reset", chunks=3)
    events = b""
    async with node.session.post(node.url + TEXT, json=text(40, stream=True)) as response:
        with pytest.raises(HUNG_UP):
            async for data in response.content.iter_any():
                events += data
    assert events.count(b"data: ") == 3
    await until(lambda: _is(node, RUNNING, 0))
    await node.clear()
    assert (await node.events(TEXT, text(40)))[-1] == "[DONE]"


async def test_a_stream_never_reaches_its_end_while_resets_hold(node: NodeClient) -> None:
    await node.order("reset", chunks=50)
    async with node.session.post(node.url + TEXT, json=text(4, stream=True)) as response:
        with pytest.raises(HUNG_UP):
            await response.text()


async def test_an_answer_in_one_piece_is_a_reset_connection_instead(node: NodeClient) -> None:
    await node.order("reset")
    body = json.dumps(text()).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    writer.write(b"POST %b HTTP/1.1\r\nHost: n\r\n" % TEXT.encode())
    writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    with pytest.raises(ConnectionResetError):
        async with asyncio.timeout(DEADLINE_S):
            await reader.read()
    writer.close()
    await node.clear()
    assert await good(node)


@pytest.mark.parametrize(("fault", "length"), [("oom", "for_s"), ("restart", "down_s")])
async def test_a_dead_engine_fails_its_requests_refuses_and_comes_back_cold(
    node: NodeClient, fault: str, length: str
) -> None:
    await node.post(TEXT, text())
    _, warm = await node.post(TEXT, text())
    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    started = await node.metric(STARTED)
    whole = asyncio.create_task(node.post(TEXT, text(50_000)))
    async with node.session.post(node.url + TEXT, json=text(50_000, stream=True)) as stream:
        await until(lambda: _is(node, RUNNING, 2))
        await node.order(fault, **{length: DOWN_S})
        assert await refused(node)
        last = (await stream.text()).split("data: ")[-2:]
    assert last[1] == "[DONE]\n\n"
    assert json.loads(last[0])["error"]["code"] == 500
    status, answer = await whole
    assert status == 500 and answer["error"]["message"]
    await until(lambda: _reachable(node))
    assert await ended(node)
    assert await node.metric("vllm:prompt_tokens_total") == 0
    again = await node.metric(STARTED)
    assert started is not None and again is not None and again > started
    status, cold = await node.post(TEXT, text())
    assert status == 200 and cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_stale_pages_answer_when_the_fault_ends_and_the_engine_serves_meanwhile(
    node: NodeClient,
) -> None:
    await node.order("stale_metrics")
    pages = [asyncio.create_task(node.get(page)) for page in ("/metrics", "/fake/telemetry")]
    done, _ = await asyncio.wait(pages, timeout=0.2)
    assert not done
    assert await good(node) and await node.get("/health") == (200, "")
    await node.clear()
    assert [(await page)[0] for page in pages] == [200, 200]


async def test_the_agent_calls_the_signals_of_stale_pages_stale_and_the_engine_up(
    node: NodeClient,
) -> None:
    settings = AgentNodeSettings(
        name="n1",
        address=f"127.0.0.1:{node.port}",
        rack="r1",
        host="h1",
        gpu_kind="H100",
        models=[],
        metrics_url=f"{node.url}/metrics",
        gpus=["GPU-1"],
    )
    now_s = 100.0
    async with Pages(DEADLINE_S) as pages:
        sampler = NodeSampler(settings, pages, clock=lambda: now_s)
        (fresh,) = await sample_all([sampler], DEADLINE_S)
        await node.order("stale_metrics")
        now_s += 2.0
        (stale,) = await sample_all([sampler], 0.1)
        await node.clear()
        (again,) = await sample_all([sampler], DEADLINE_S)
    for sample, state in (
        (fresh, SignalState.MEASURED),
        (stale, SignalState.STALE),
        (again, SignalState.MEASURED),
    ):
        assert sample.engine.running.state is state
        assert sample.engine_up


async def test_frozen_pages_repeat_what_they_told_at_the_start(node: NodeClient) -> None:
    pages = ("/metrics", "/fake/telemetry")
    await node.order("frozen_metrics")
    before = [await node.get(page) for page in pages]
    await node.post(TEXT, text(5))
    assert [await node.get(page) for page in pages] == before
    await node.clear()
    assert await node.metric("vllm:generation_tokens_total") == 5
    assert (await node.get("/fake/telemetry"))[1] != before[1][1]


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
async def test_a_skewed_clock_is_off_by_the_ordered_seconds(
    node: NodeClient, seconds: float
) -> None:
    async def ahead_s() -> float:
        page = json.loads((await node.get("/fake/telemetry"))[1])
        return float(page["wall_unix_ms"]) / 1e3 - time.time()

    assert await ahead_s() == pytest.approx(0.0, abs=30)
    await node.order("clock_skew", seconds=seconds)
    assert await ahead_s() == pytest.approx(seconds, abs=30)
    await node.clear()
    assert await ahead_s() == pytest.approx(0.0, abs=30)


async def took_s(node: NodeClient) -> float:
    started_s = time.monotonic()
    assert await node.get("/health") == (200, "")
    return time.monotonic() - started_s


async def test_a_delay_holds_for_the_request_and_for_the_answer(node: NodeClient) -> None:
    assert await good(node)
    await node.order("delay", ms=150, jitter_ms=10)
    assert await took_s(node) >= 2 * 0.14
    events = await node.events(TEXT, text(20))
    assert "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1])
    assert events[-1] == "[DONE]"
    await node.clear()

    async def fast() -> bool:
        return await took_s(node) < 2 * 0.14

    await until(fast)


async def test_a_lost_piece_comes_a_retransmission_later(node: NodeClient) -> None:
    await node.order("loss", fraction=0.3)

    async def late() -> bool:
        return await took_s(node) >= RETRANSMISSION_S

    await until(late)
    await node.clear()

    async def fast() -> bool:
        return await took_s(node) < RETRANSMISSION_S

    await until(fast)


async def test_faults_hold_together_and_are_listed_until_cleared(node: NodeClient) -> None:
    orders = [
        {"fault": "slow", "factor": 5, "for_s": 600},
        {"fault": "status", "status": 503},
        {"fault": "refuse", "after_s": 300, "for_s": 60},
    ]
    status, answer = await node.post("/fake/faults", orders)
    assert status == 200
    slow, failing, refusing = answer["faults"]
    assert slow["factor"] == 5 and slow["active"] and 599 < slow["ends_in_s"] <= 600
    assert failing["active"] and failing["ends_in_s"] is None
    assert not refusing["active"] and 299 < refusing["starts_in_s"] <= 300
    assert (await node.post(TEXT, text()))[0] == 503
    assert [fault["fault"] for fault in await node.faults()] == ["slow", "status", "refuse"]
    await node.clear()
    assert await ended(node) and await good(node)


async def test_a_fault_begins_and_ends_by_itself(node: NodeClient) -> None:
    await node.order("status", status=503, after_s=0.2)

    async def failing() -> bool:
        return not await good(node)

    await until(failing)
    await node.clear()
    await node.order("status", status=503, for_s=0.2)
    await until(lambda: ended(node))
    assert await good(node)


async def test_a_bad_order_changes_nothing(node: NodeClient) -> None:
    await node.order("slow", factor=2)
    before = [fault["fault"] for fault in await node.faults()]
    status, answer = await node.post(
        "/fake/faults", [{"fault": "status", "status": 500}, {"fault": "loss"}]
    )
    assert status == 400 and answer["error"]["param"] == "1.fraction"
    assert [fault["fault"] for fault in await node.faults()] == before
    assert await good(node)


async def _is(node: NodeClient, name: str, value: float) -> bool:
    return await node.metric(name) == value


async def _reachable(node: NodeClient) -> bool:
    return not await refused(node)
