"""A beginning that many prompts share draws them to the nodes that hold it, as far as none gets
too many.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import aiohttp
from aiohttp import web

from isocost.bench.load import load
from isocost.bench.prompt import PromptSource
from isocost.bench.trace import TraceRequest
from tests.integration.conftest import StartBackend
from tests.integration.harness.gateway import COMPLETIONS
from tests.integration.harness.node_bound import beyond_bound, per_table
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.table_recorder import TableRecorder
from tests.integration.harness.wait import wait_until

#: One prefix of 12 blocks is in 361 of its 1,000 requests; they come in batches 3 s apart.
TRACE = Path(__file__).parent / "fixtures" / "mooncake_arxiv_1000.jsonl.gz"
POPULAR_BLOCK = 46
#: So many times as fast as recorded: 177 s become 25 s.
SPEED_UP = 7.0
NODES = 8
ANSWER_S = 0.1


async def after_a_while(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(ANSWER_S)
    return web.json_response({"object": "chat.completion"})


async def replay(url: str, trace: Sequence[TraceRequest]) -> None:
    """Every request at its time, and named in a header: whether its prompt has the prefix."""
    source = PromptSource(1)
    start_s = time.monotonic()

    async def send(session: aiohttp.ClientSession, item: TraceRequest, text: str) -> None:
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        headers = {"x-popular": str(POPULAR_BLOCK in item.blocks[:1])}
        async with session.post(url, data=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()

    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        asyncio.TaskGroup() as requests,
    ):
        for item in trace:
            text = source.prompt(item.input_tokens, item.blocks, item.block_tokens).decode()
            await asyncio.sleep(start_s + item.arrival_s - time.monotonic())
            requests.create_task(send(session, item, text))


async def test_a_prefix_in_a_third_of_the_requests_overloads_no_node(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}") for number in range(NODES)]
    trace = load(str(TRACE), "mooncake-bursts", time_scale=SPEED_UP)
    async with (
        fleet.running(backends, policy="equal_cost"),
        TableRecorder(fleet.grpc_port) as recorder,
    ):
        # The workers' filters know of each other once their reports are in a table.
        version = await wait_until(lambda: recorder.newest_with(2), "both workers are counted")
        await wait_until(lambda: fleet.picks_from(version), "that table is picked from")
        for backend in backends:
            backend.answer = after_a_while
        logged = len(fleet.envoy.access_log())
        await replay(fleet.envoy.url + COMPLETIONS, trace)
        entries = (await fleet.envoy.logged(logged + len(trace)))[logged:]
    counts = per_table(entries)
    assert beyond_bound(counts, recorder.tables) == []
    popular = Counter(
        backend.name
        for backend in backends
        for received in backend.received
        if received.headers.get("x-popular") == "True"
    )
    assert popular.total() > len(trace) / 3
