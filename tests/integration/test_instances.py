"""Open requests belong to an instance of a node: its successor of the same name begins at 0."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from tests.integration.conftest import StartBackend
from tests.integration.harness.backend import Backend
from tests.integration.harness.connection import Connection
from tests.integration.harness.held import FIRST_CHUNK, LAST_CHUNK, Gate, held_stream
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

OLD, NEW = 5, 3
#: So long the count is watched after an event: five reports of each worker.
WATCHED_S = 1.0
#: A node that is not announced any more leaves the roster after this.
FORGET_MS = 1_000


async def test_a_node_that_comes_back_does_not_inherit_its_predecessors_requests(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}") for number in (1, 2, 3)]
    node = backends[0]
    discovery = {"lost_after_ms": FORGET_MS // 2, "forget_after_ms": FORGET_MS}
    async with fleet.running(backends, discovery=discovery):
        # Not a byte yet: on which node they are is settled when their answers begin.
        begins, ends = Gate(), Gate()
        node.answer = held_stream(ends, begins)
        old = await open_on(fleet, backends, OLD)
        await wait_until(lambda: reads(fleet, OLD), "the count reads 5")

        everybody = fleet.announcer.nodes
        fleet.announcer.nodes = everybody[1:]
        await wait_until(lambda: reads(fleet, None), "the node leaves the roster")
        fleet.announcer.nodes = (replace(everybody[0], instance_id="node-1@2"), *everybody[1:])
        await wait_until(lambda: reads(fleet, 0), "it is back and has nothing open")

        held = Gate()
        node.answer = held_stream(held)
        await open_on(fleet, backends, NEW)
        await wait_until(lambda: reads(fleet, NEW), "the count reads 3")
        begins.release()
        for connection in old:
            assert (await connection.head()).status == 200
            assert await connection.chunk() == FIRST_CHUNK
        await keeps_reading(fleet, NEW)
        ends.release()
        for connection in old:
            assert [await connection.chunk(), await connection.chunk()] == [LAST_CHUNK, b""]
        await keeps_reading(fleet, NEW)
        held.release()
        await wait_until(lambda: reads(fleet, 0), "the count reads 0")


async def open_on(fleet: StandInFleet, backends: Sequence[Backend], count: int) -> list[Connection]:
    """Send requests until so many are open on the first backend; the others answer at once."""
    found: list[Connection] = []
    while len(found) < count:
        before = [len(backend.received) for backend in backends]
        connection = await fleet.connect()
        connection.send()

        def arrived(before: list[int] = before) -> bool:
            return [len(backend.received) for backend in backends] != before

        await wait_until(arrived, "the request is on a node")
        if len(backends[0].received) > before[0]:
            found.append(connection)
        else:
            assert (await connection.head()).status == 200
    return found


async def reads(fleet: StandInFleet, count: int | None) -> bool:
    """Is this the first node's count? None = the node is not in the roster."""
    return (await fleet.in_flight()).get("node-1") == count


async def keeps_reading(fleet: StandInFleet, count: int) -> None:
    end_s = time.monotonic() + WATCHED_S
    while time.monotonic() < end_s:
        assert await reads(fleet, count), await fleet.in_flight()
        await asyncio.sleep(0.05)
