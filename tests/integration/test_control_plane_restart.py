"""A control plane that is killed and comes back 5 s later: no client and no count notices."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any

from tests.integration.harness.completion_load import CompletionLoad
from tests.integration.harness.fleet import HARDWARE, MODEL, Fleet, table_of
from tests.integration.harness.table_recorder import TableRecorder
from tests.integration.harness.wait import wait_until

NODES = 4
PER_S = 60
STREAMS = 20
STREAM_S = 20.0
AWAY_S = 5.0
FRESH_AGAIN_S = 1.0


async def test_a_killed_control_plane_costs_no_request_and_comes_back_with_all_it_knew(
    fleet: Fleet,
) -> None:
    await fleet.start(NODES)
    async with TableRecorder(fleet.grpc_port) as recorder:
        streams = [asyncio.create_task(stream(fleet)) for _ in range(STREAMS)]
        counted = await wait_until(lambda: settled(fleet), "every stream is counted")
        async with CompletionLoad(fleet, PER_S, max_tokens=20) as load:
            await wait_until(lambda: load.sent >= PER_S, "load")
            fleet.control_plane.kill()
            await asyncio.sleep(AWAY_S)
            fleet.start_control_plane()
            back_unix_s = await answers_at(fleet.grpc_port)
            entry = await wait_until(lambda: picked_since(fleet, back_unix_s), "a fresh table")
            more = load.sent + 2 * PER_S
            await wait_until(lambda: load.sent >= more, "more load")
        await wait_until(lambda: reads(fleet, counted), "the same figures as before")
        assert not any(task.done() for task in streams)
        for text in await asyncio.gather(*streams):
            assert text.rstrip().endswith("data: [DONE]")
        await wait_until(lambda: counts(fleet, 0), "every count is 0")
    fresh_after_s = datetime.fromisoformat(entry["time"]).timestamp() - back_unix_s
    print(f"fresh after {fresh_after_s:.3f} s; {load.sent} requests; {counted}")
    assert load.failures == []
    assert fresh_after_s <= FRESH_AGAIN_S
    assert {tuple(sorted(names)) for names in recorder.rosters} == {
        tuple(node.name for node in fleet.nodes)
    }


async def stream(fleet: Fleet) -> str:
    """The text of one long streamed answer."""
    body = {
        "model": MODEL,
        "prompt": "hello",
        "max_tokens": int(STREAM_S / HARDWARE.speed.decode_s(1)),
        "stream": True,
    }
    async with fleet.session.post(f"{fleet.envoy.url}/v1/completions", json=body) as response:
        assert response.status == 200
        return await response.text()


async def in_flight(fleet: Fleet) -> dict[str, int]:
    return {row["name"]: row["in_flight"] for row in await fleet.node_rows()}


async def counts(fleet: Fleet, total: int) -> bool:
    counts = (await in_flight(fleet)).values()
    return None not in counts and sum(counts) == total


async def settled(fleet: Fleet) -> dict[str, int] | None:
    """The open requests by node once they are the streams alone, as the engines have them too."""
    rows = await fleet.node_rows()
    if any(row["in_flight"] != row["running"] for row in rows):
        return None
    counted = {row["name"]: int(row["in_flight"]) for row in rows}
    return counted if sum(counted.values()) == STREAMS else None


async def reads(fleet: Fleet, counted: dict[str, int]) -> bool:
    return await in_flight(fleet) == counted


async def answers_at(port: int) -> float:
    """Unix seconds at which something listens there again."""

    async def listens() -> float | None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return None
        writer.close()
        return time.time()

    return await wait_until(listens, "the control plane is back")


def picked_since(fleet: Fleet, unix_s: float) -> dict[str, Any] | None:
    """The first request that was decided by a table built since then (which its version says)."""
    entries = fleet.envoy.access_log()
    fresh = (entry for entry in entries if table_of(entry) >= unix_s * 1e3)
    return min(fresh, key=lambda entry: str(entry["time"]), default=None)
