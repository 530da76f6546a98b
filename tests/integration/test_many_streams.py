"""Two thousand streams at once, one of them silent for 90 s before its first token: none fails."""

from __future__ import annotations

import asyncio
import time

import aiohttp

from tests.integration.harness.fleet import HARDWARE, MODEL, Fleet
from tests.integration.harness.wait import wait_until

STREAMS = 2000
NODES = 8
SILENCE_S = 90.0
LONG_S = 95.0
CONNECT_PER_S = 400


async def test_two_thousand_streams_and_a_long_silent_one_all_end_well(fleet: Fleet) -> None:
    await fleet.start(NODES, "weighted_random", "--max-num-seqs", "512")
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        step_s = HARDWARE.speed.decode_s(1)
        long = asyncio.create_task(
            stream(session, fleet, int((LONG_S - SILENCE_S) / step_s), SILENCE_S)
        )
        tasks = []
        started_s = time.monotonic()
        for index in range(STREAMS - 1):
            tasks.append(asyncio.create_task(stream(session, fleet, 2000)))
            due_s = started_s + index / CONNECT_PER_S
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        await wait_until(lambda: in_flight(fleet, STREAMS), "all streams are open at once", 30)
        await asyncio.gather(*tasks)
        # On a machine that is slow with the others it can have ended before them.
        await wait_until(lambda: in_flight(fleet, int(not long.done())), "it stays counted")
        duration_s = await long
    assert duration_s >= LONG_S
    entries = await fleet.envoy.logged(STREAMS)
    failed = [entry for entry in entries if entry["status"] != 200 or entry["flags"] != "-"]
    assert failed == []
    await wait_until(lambda: in_flight(fleet, 0), "every count is back at 0")


async def stream(
    session: aiohttp.ClientSession, fleet: Fleet, tokens: int, silence_s: float = 0.0
) -> float:
    """Read one streamed answer to its end; its duration in seconds."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": tokens,
        "stream": True,
        "fake_first_token_delay_s": silence_s,
    }
    started_s = time.monotonic()
    url = f"{fleet.envoy.url}/v1/chat/completions"
    async with session.post(url, json=body, timeout=aiohttp.ClientTimeout(total=None)) as response:
        assert response.status == 200, await response.text()
        text = await response.text()
    assert text.rstrip().endswith("data: [DONE]")
    return time.monotonic() - started_s


async def in_flight(fleet: Fleet, wanted: int) -> bool:
    """Does the control plane count exactly that many open requests?"""
    counts = [row["in_flight"] for row in await fleet.node_rows()]
    return None not in counts and sum(counts) == wanted
