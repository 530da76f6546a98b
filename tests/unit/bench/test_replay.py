"""The open-loop replay against a real server that behaves and misbehaves on request."""

import asyncio
import json
import socket
import time

import pytest
from aiohttp import web

from isocost.bench.replay import Replay, ReplaySettings
from isocost.bench.result import RequestResult
from isocost.bench.sse import AnswerReader
from isocost.bench.trace import TraceRequest
from tests.unit.bench.chat_server import DONE, PATH, TEXT, USAGE, Handler, server, streaming

#: The times of requests are measured here.
pytestmark = pytest.mark.alone

WHOLE = {
    "system_fingerprint": "n3",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "whole"}}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 11},
}


async def replay(url: str, *arrivals_s: float, **settings: object) -> tuple[RequestResult, ...]:
    requests = [TraceRequest(arrival_s, 10, 11) for arrival_s in arrivals_s]
    return await Replay(requests, ReplaySettings(url, "m", **settings)).run()  # type: ignore[arg-type]


async def test_times_count_from_the_schedule_and_tokens_from_usage() -> None:
    async with server(streaming(0.1, TEXT, 0.1, TEXT, USAGE, DONE)) as url:
        (result,) = await replay(url, 0.2)
    assert result.ok
    assert result.scheduled_s == 0.2
    assert 0.2 <= result.sent_s < 0.39
    assert result.ttft_ms is not None and 100 <= result.ttft_ms < 290
    assert 200 <= result.e2e_ms < 390
    assert (result.chunks, result.output_tokens) == (2, 11)
    assert result.tpot_ms is not None and 9 <= result.tpot_ms < 30


async def test_a_slow_server_does_not_slow_the_schedule() -> None:
    """None is answered before all have come: who waits for answers never sends them all."""
    count, all_came = 0, asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        if count == 10:
            all_came.set()
        await all_came.wait()
        return await streaming(TEXT, USAGE, DONE)(request)

    async with server(handle) as url, asyncio.timeout(60):
        results = await replay(url, *(0.02 * n for n in range(10)))
    assert all(result.ok for result in results)


async def test_waiting_for_a_socket_counts_as_latency() -> None:
    async with server(streaming(0.2, TEXT, USAGE, DONE)) as url:
        results = await replay(url, 0.0, 0.0, 0.0, max_connections=1)
    times = sorted(result.ttft_ms or 0.0 for result in results)
    assert times[0] >= 200
    assert times[1] >= 400
    assert times[2] >= 600


async def test_a_late_generator_shows_in_the_latencies() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        # Holds the event loop, and with it the generator.
        time.sleep(0.3)  # noqa: ASYNC251
        return await streaming(TEXT, USAGE, DONE)(request)

    async with server(handle) as url:
        results = await replay(url, 0.0, 0.05)
    late = max(results, key=lambda result: result.scheduled_s)
    assert late.sent_s - late.scheduled_s >= 0.2
    assert late.ttft_ms is not None and late.ttft_ms >= 500
    assert late.e2e_ms >= 500


async def test_sockets_are_used_again() -> None:
    peers: set[object] = set()

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return await streaming(TEXT, USAGE, DONE)(request)

    async with server(handle) as url:
        # One at a time, however slow the machine is.
        results = await replay(url, *(0.05 * n for n in range(8)), max_connections=1)
    assert len(results) == 8
    assert len(peers) == 1


async def test_the_request_asks_for_a_stream_with_usage_and_the_traces_lengths() -> None:
    bodies: list[dict[str, object]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        bodies.append(json.loads(await request.read()))
        return await streaming(TEXT, USAGE, DONE)(request)

    async with server(handle) as url:
        await replay(url, 0.0)
    messages = bodies[0].pop("messages")
    assert isinstance(messages, list)
    assert len(messages[0]["content"]) == 40
    assert bodies[0] == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 11,
    }


def answering(status: int) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no"}}, status=status)

    return handle


async def cut_in_the_middle(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(TEXT)
    assert request.transport is not None
    request.transport.abort()
    return response


async def test_the_last_event_may_lack_its_line_end() -> None:
    async with server(streaming(TEXT, USAGE, DONE.rstrip())) as url:
        (result,) = await replay(url, 0.0)
    assert result.ok


async def test_an_answer_that_breaks_the_reader_is_a_failure_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def feed(_reader: AnswerReader, _data: bytes, _now_s: float) -> None:
        raise OverflowError("too far")

    monkeypatch.setattr(AnswerReader, "feed", feed)
    async with server(streaming(TEXT, USAGE, DONE)) as url:
        results = await replay(url, 0.0, 0.05)
    assert [(result.failure, result.detail) for result in results] == [
        ("bad_event", "OverflowError: too far")
    ] * 2


async def test_what_was_said_about_a_failure_is_kept_without_secrets() -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        words = "Incorrect API key: sk-12345678, \n see Bearer sk-12345678 " + "x" * 10_000
        return web.Response(status=401, text=words)

    headers = {"authorization": "Bearer sk-12345678", "x-team": "a"}
    async with server(handle) as url:
        (result,) = await replay(url, 0.0, headers=headers)
    assert result.detail is not None
    assert result.detail.startswith("Incorrect API key: ***, see *** xxx")
    assert len(result.detail) == 200


async def test_a_refused_connection_says_why() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        (result,) = await replay(f"http://127.0.0.1:{taken.getsockname()[1]}{PATH}", 0.0)
    assert result.detail is not None and "Connect call failed" in result.detail


@pytest.mark.parametrize(
    ("handler", "failure", "status"),
    [
        (answering(429), "status_4xx", 429),
        (answering(503), "status_5xx", 503),
        (streaming(TEXT, USAGE), "truncated", 200),
        (streaming(TEXT, b'data: {"error":{"message":"x"}}\n\n', DONE), "bad_event", 200),
        (streaming(TEXT, 30.0, DONE), "timeout", 200),
        (cut_in_the_middle, "reset", 200),
    ],
)
async def test_each_failure_has_its_name(handler: Handler, failure: str, status: int) -> None:
    async with server(handler) as url:
        (result,) = await replay(url, 0.0, request_timeout_s=0.5)
    assert (result.failure, result.status) == (failure, status)
    assert not result.ok


async def test_nobody_listening_is_a_connect_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        (result,) = await replay(f"http://127.0.0.1:{taken.getsockname()[1]}{PATH}", 0.0)
    assert (result.failure, result.status, result.ttft_ms) == ("connect", None, None)


async def test_a_server_that_does_not_stream_has_given_no_events() -> None:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": [{"message": {"content": "whole"}}]})

    async with server(handle) as url:
        (result,) = await replay(url, 0.0)
    assert (result.failure, result.status, result.ttft_ms) == ("truncated", 200, None)


async def test_an_answer_that_is_not_streamed_has_an_end_and_tokens_but_no_first_token() -> None:
    seen: list[tuple[dict[str, object], str | None]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append((json.loads(await request.read()), request.headers.get("accept")))
        await asyncio.sleep(0.1)
        return web.json_response(WHOLE)

    async with server(handle) as url:
        (result,) = await replay(url, 0.0, body={"stream": False})
    assert result.ok and result.e2e_ms >= 100
    assert (result.node, result.output_tokens) == ("n3", 11)
    assert (result.ttft_ms, result.tpot_ms, result.chunks) == (None, None, 0)
    ((body, accept),) = seen
    del body["messages"]
    assert body == {"model": "m", "stream": False, "max_tokens": 11}
    assert accept == "application/json"


async def cut_whole(request: web.Request) -> web.StreamResponse:
    """Ends before its content-length."""
    text = json.dumps(WHOLE).encode()
    response = web.StreamResponse(headers={"content-length": str(len(text))})
    await response.prepare(request)
    await response.write(text[:20])
    assert request.transport is not None
    request.transport.close()
    return response


async def slow_whole(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30.0)
    return web.json_response(WHOLE)


@pytest.mark.parametrize(
    ("handler", "failure", "status"),
    [
        (answering(429), "status_4xx", 429),
        (answering(503), "status_5xx", 503),
        (answering(200), "bad_event", 200),
        (streaming(), "truncated", 200),
        (streaming(json.dumps(WHOLE).encode()[:-1]), "truncated", 200),
        (streaming(TEXT, USAGE, DONE), "bad_event", 200),
        (cut_whole, "reset", 200),
        (slow_whole, "timeout", None),
    ],
)
async def test_each_failure_of_a_whole_answer_has_its_name(
    handler: Handler, failure: str, status: int | None
) -> None:
    async with server(handler) as url:
        (result,) = await replay(url, 0.0, request_timeout_s=0.5, body={"stream": False})
    assert (result.failure, result.status, result.ttft_ms) == (failure, status, None)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_server_that_packs_answers_is_told_not_to(stream: bool) -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        body = TEXT + USAGE + DONE if stream else json.dumps(WHOLE).encode()
        response = web.Response(body=body)
        response.enable_compression()
        return response

    async with server(handle) as url:
        (result,) = await replay(url, 0.0, body={"stream": stream})
    assert result.ok, result.detail


async def test_headers_and_further_members_go_with_every_request() -> None:
    seen: list[tuple[str | None, object]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        seen.append((request.headers.get("authorization"), body.get("ignore_eos")))
        return await streaming(TEXT, USAGE, DONE)(request)

    async with server(handle) as url:
        await replay(url, 0.0, 0.0, headers={"authorization": "k"}, body={"ignore_eos": True})
    assert seen == [("k", True)] * 2


async def test_a_result_names_the_node_the_kind_and_the_user() -> None:
    text = TEXT.replace(b'{"choices"', b'{"system_fingerprint":"n3","choices"')
    async with server(streaming(text, USAGE, DONE)) as url:
        request = TraceRequest(0.0, 10, 11, user="u1", kind="A")
        replay = Replay([request], ReplaySettings(url, "m"))
        (result,) = await replay.run()
    assert (result.node, result.kind, result.user) == ("n3", "A", "u1")
    assert replay.answered == {"n3": 1}


async def test_blocks_that_requests_share_are_the_same_text() -> None:
    prompts: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        prompts.append(json.loads(await request.read())["messages"][0]["content"])
        return await streaming(TEXT, USAGE, DONE)(request)

    requests = [TraceRequest(0.1 * n, 1100, 4, blocks=(7, 8, n)) for n in range(2)]
    async with server(handle) as url:
        await Replay(requests, ReplaySettings(url, "m")).run()
    shared = 2 * 512 * 4
    assert prompts[0][:shared] == prompts[1][:shared]
    assert prompts[0] != prompts[1]


async def test_a_later_part_of_a_trace_keeps_its_times_and_starts_at_once() -> None:
    async with server(streaming(TEXT, USAGE, DONE)) as url:
        replay = Replay([TraceRequest(1000.0, 10, 11)], ReplaySettings(url, "m"), start_s=1000.0)
        async with asyncio.timeout(30):
            (result,) = await replay.run()
    assert result.scheduled_s == 1000.0
    assert 1000.0 <= result.sent_s <= result.end_s < 1030.0


async def test_the_traces_time_stands_at_the_start_until_the_replay_begins() -> None:
    async with server(streaming(TEXT, USAGE, DONE)) as url:
        replay = Replay([TraceRequest(1000.0, 10, 11)], ReplaySettings(url, "m"), start_s=1000.0)
        await asyncio.sleep(0)
        assert replay.now_s == 1000.0
        (result,) = await replay.run()
        assert replay.now_s >= result.end_s > 1000.0


async def test_a_stopped_replay_gives_what_was_answered_so_far() -> None:
    answered = asyncio.Event()
    count = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        if count == 1:
            return await streaming(TEXT, USAGE, DONE)(request)
        answered.set()
        return await streaming(TEXT, 60.0)(request)

    async with server(handle) as url:
        requests = [TraceRequest(at_s, 10, 11) for at_s in (0.0, 0.3, 3600.0)]
        replay = Replay(requests, ReplaySettings(url, "m"))
        task = asyncio.create_task(replay.run())
        async with asyncio.timeout(30):
            await answered.wait()
            replay.stop()
            results = await task
    assert [result.failure for result in results] == [None, "unanswered"]
    assert (replay.sent, replay.done, replay.total) == (2, 2, 3)


async def test_a_replay_that_is_stopped_before_it_begins_sends_nothing() -> None:
    async with server(streaming(TEXT, USAGE, DONE)) as url:
        replay = Replay([TraceRequest(0.0, 10, 11)], ReplaySettings(url, "m"))
        replay.stop()
        async with asyncio.timeout(30):
            assert await replay.run() == ()
    assert replay.sent == 0


async def test_counters_can_be_read_while_it_runs() -> None:
    async with server(answering(503)) as url:
        replay = Replay([TraceRequest(0.0, 1, 1)] * 3, ReplaySettings(url, "m"))
        assert (replay.total, replay.sent, replay.done, replay.failed) == (3, 0, 0, 0)
        await replay.run()
    assert (replay.total, replay.sent, replay.done, replay.failed) == (3, 3, 3, 3)


async def test_a_rejected_request_is_not_counted_as_failed() -> None:
    async with server(answering(429)) as url:
        replay = Replay([TraceRequest(0.0, 1, 1)] * 3, ReplaySettings(url, "m"))
        await replay.run()
    assert (replay.sent, replay.failed, replay.rejected) == (3, 0, 3)
