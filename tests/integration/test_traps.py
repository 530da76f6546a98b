"""What a failure of the filter costs: its own request and its worker's streams, and no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from isocost.files import WASM
from tests.integration.conftest import StartBackend
from tests.integration.harness.backend import Backend, ok
from tests.integration.harness.connection import Connection
from tests.integration.harness.fleet import decision_fields
from tests.integration.harness.held import LAST_CHUNK, Gate, held_stream
from tests.integration.harness.memory import rss_growth
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.steady_load import SteadyLoad
from tests.integration.harness.trap_filter import (
    TRAP_THE_FEED,
    TRAP_THIS_REQUEST,
    TRIGGER,
    trap_filter,
)
from tests.integration.harness.wait import DEADLINE_S, wait_until
from tests.integration.harness.workers import connect_to_workers

STREAMS_EACH = 25
NEXT_SERVED_S = 0.1
COUNTS_BACK_S = 5.0
TRAPS = 5
TRAP_PAUSE_S = 0.2
TRAPS_WITHIN_S = 1.0
OUTAGE_S = 1.0
FRESH_AGAIN_MS = 3_000
FLAT_S = 60.0
#: Under a steady load Envoy's memory moves by a tenth of this.
FLAT_SHARE = 0.01


@pytest.fixture
async def backends(start_backend: StartBackend) -> list[Backend]:
    return [await start_backend(f"node-{number}") for number in range(4)]


@pytest.fixture
def fleet(stand_in_fleet: StandInFleet) -> StandInFleet:
    stand_in_fleet.wasm = trap_filter()
    return stand_in_fleet


def test_the_shipped_filter_has_no_trigger() -> None:
    assert TRIGGER.encode() in Path(trap_filter()).read_bytes()
    assert TRIGGER.encode() not in WASM.read_bytes()


async def test_a_trap_costs_its_request_and_the_streams_of_its_worker(
    fleet: StandInFleet, backends: list[Backend]
) -> None:
    async with fleet.running(backends):
        workers = await connect_to_workers(fleet, STREAMS_EACH + 10)
        cut, spared = (connections[:STREAMS_EACH] for connections in workers)
        (trap, *probes), others = (connections[STREAMS_EACH:] for connections in workers)
        held = Gate()
        for backend in backends:
            backend.answer = held_stream(held)
        before = len(fleet.envoy.access_log())
        await asyncio.gather(*(connection.begin_stream() for connection in cut + spared))
        await wait_until(lambda: fleet.counts(2 * STREAMS_EACH), "every stream is counted")

        for backend in backends:
            backend.answer = ok
        assert await trap.ask(TRAP_THIS_REQUEST) == 503
        refused, served_after_s = await first_success(probes)
        assert served_after_s <= NEXT_SERVED_S
        assert [await other.ask() for other in others] == [200] * len(others)

        # Nobody counts the streams of a filter that is no more; Envoy cuts each at its next chunk.
        await wait_until(lambda: fleet.counts(STREAMS_EACH), "its counts are gone", COUNTS_BACK_S)
        held.release()
        for connection in cut:
            with pytest.raises(ConnectionError):
                await connection.chunk()
        for connection in spared:
            assert [await connection.chunk(), await connection.chunk()] == [LAST_CHUNK, b""]
        zero_s = await time_to_zero(fleet)
        total = 2 * STREAMS_EACH + 1 + refused + 1 + len(others)
        entries = (await fleet.envoy.logged(before + total))[before:]
        # Envoy names no line, and the standard library's text is not in the module.
        assert "panic at shell/src/test_trap.rs:" in fleet.envoy.stderr.read_text()
    assert sum(went_wrong(entry) for entry in entries) == STREAMS_EACH + 1 + refused
    assert all(
        "reason=picked" in str(entry["decision"]) for entry in entries if not went_wrong(entry)
    )
    print(f"served after {served_after_s * 1e3:.1f} ms ({refused} refused), 0 after {zero_s:.2f} s")


async def test_five_traps_in_a_second_cost_a_second_of_that_worker(
    fleet: StandInFleet, backends: list[Backend]
) -> None:
    async with fleet.running(backends):
        hit, spared = await connect_to_workers(fleet, 60)
        held = Gate()
        for backend in backends:
            backend.answer = held_stream(held)
        stream = spared.pop()
        await stream.begin_stream()
        for backend in backends:
            backend.answer = ok
        async with asking_meanwhile(spared[0]), asyncio.timeout(DEADLINE_S):
            outages_s = await trap_repeatedly(hit)
        (reloads,) = (await fleet.envoy.stats("^wasm.isocost.vm_reload_success$")).values()
        assert reloads == TRAPS
        assert sum(outages_s) <= OUTAGE_S
        held.release()
        assert await stream.chunk() == LAST_CHUNK
        zero_s = await time_to_zero(fleet)
    print(f"refusals lasted, ms: {[round(s * 1e3) for s in outages_s]}; 0 after {zero_s:.2f} s")


async def test_a_trap_of_the_feed_costs_no_request_and_three_seconds_of_fresh_tables(
    fleet: StandInFleet, backends: list[Backend]
) -> None:
    async with fleet.running(backends), SteadyLoad(fleet.envoy.url, per_s=100) as load:
        before = len(fleet.envoy.access_log())
        assert await (await fleet.connect()).ask(TRAP_THE_FEED) == 200
        trapped_unix_ms = time.time() * 1e3
        await wait_until(
            lambda: table_built_after(fleet, trapped_unix_ms), "fresh tables", FRESH_AGAIN_MS / 1e3
        )
        growth = await rss_growth({"Envoy": fleet.envoy.pid}, FLAT_S)
        entries = fleet.envoy.access_log()[before:]
        streams = await fleet.envoy.stats("^wasmcustom.isocost.feed_streams_opened$")
    assert load.failures == []
    assert not any(went_wrong(entry) for entry in entries)
    oldest_ms = max(int(decision_fields(entry)["age_ms"]) for entry in entries)
    assert oldest_ms <= FRESH_AGAIN_MS
    assert growth["Envoy"] <= FLAT_SHARE
    print(f"{len(entries)} requests, oldest table {oldest_ms} ms, {growth}, {streams}")


async def first_success(connections: list[Connection]) -> tuple[int, float]:
    """How many requests were refused before one was served, and how long that took, in seconds."""
    started_s = time.monotonic()
    for refused, connection in enumerate(connections):
        # A refusal ends its connection.
        if await connection.ask() == 200:
            return refused, time.monotonic() - started_s
        await asyncio.sleep(0.005)
    raise AssertionError("no request was served")


async def trap_repeatedly(connections: list[Connection]) -> list[float]:
    """Fail the filter five times within a second while requests go on: for each spell of
    refusals, the seconds from the first of them to the next request that was served.
    """
    spells_s: list[float] = []
    trapped_s: list[float] = []
    refused_s: float | None = None
    connection = connections.pop()
    while len(spells_s) < TRAPS:
        asked_s = time.monotonic()
        headers = None
        if refused_s is None and asked_s >= [0.0, *trapped_s][-1] + TRAP_PAUSE_S:
            headers = TRAP_THIS_REQUEST
            trapped_s.append(asked_s)
        if await connection.ask(headers) == 200:
            if refused_s is not None:
                spells_s.append(time.monotonic() - refused_s)
            refused_s = None
        else:
            # A refusal ends its connection.
            connection = connections.pop()
            refused_s = refused_s or asked_s
        await asyncio.sleep(0.01)
    assert trapped_s[-1] - trapped_s[0] <= TRAPS_WITHIN_S
    return spells_s


@asynccontextmanager
async def asking_meanwhile(connection: Connection) -> AsyncIterator[None]:
    """Inside it requests follow each other on that connection; each must be served."""

    async def keep_asking() -> None:
        while True:
            assert await connection.ask() == 200
            await asyncio.sleep(0.01)

    task = asyncio.create_task(keep_asking())
    try:
        yield
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def time_to_zero(fleet: StandInFleet) -> float:
    """Seconds until the control plane counts no open request."""
    started_s = time.monotonic()
    await wait_until(lambda: fleet.counts(0), "every count is 0", COUNTS_BACK_S)
    return time.monotonic() - started_s


async def table_built_after(fleet: StandInFleet, unix_ms: float) -> bool:
    """Was the last request decided by a table that new? A table's version is when it was built."""
    last = fleet.envoy.access_log()[-1]
    return int(decision_fields(last)["table"]) > unix_ms


def went_wrong(entry: dict[str, Any]) -> bool:
    return entry["status"] != 200 or entry["details"] != "via_upstream"
