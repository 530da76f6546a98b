"""Whatever way requests end, by the thousand: nothing stays counted as open."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from aiohttp import web

from tests.integration.conftest import StartBackend
from tests.integration.harness.backend import Answer, Backend, cut_stream, ok, reset
from tests.integration.harness.connection import Connection
from tests.integration.harness.held import FIRST_CHUNK, Gate, held_answer, held_stream
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

REQUESTS = 1_000
AT_ONCE = 100
#: Retries at once stay within the budget that the routes give them.
RETRIED_AT_ONCE = 8
#: Envoy waits a second before it closes a connection whose answer it cannot end.
CUT_AT_ONCE = 500
REQUEST_ID = "x-test-id"
RESETS = "x-test-resets"


@pytest.fixture
async def backends(start_backend: StartBackend) -> list[Backend]:
    return [await start_backend(f"node-{number}") for number in range(4)]


@pytest.mark.parametrize("answer", [held_answer, held_stream], ids=["before-headers", "mid-stream"])
async def test_a_thousand_client_aborts_leave_nothing_open(
    stand_in_fleet: StandInFleet, backends: list[Backend], answer: Callable[[Gate], Answer]
) -> None:
    fleet = stand_in_fleet
    async with fleet.running(backends):
        gate = Gate()
        for backend in backends:
            backend.answer = answer(gate)
        for wave in range(REQUESTS // AT_ONCE):
            sent = AT_ONCE * (wave + 1)
            connections = [await fleet.connect() for _ in range(AT_ONCE)]
            for connection in connections:
                if answer is held_stream:
                    await connection.begin_stream()
                else:
                    connection.send()
            await wait_until(lambda sent=sent: received(backends) == sent, "all are on nodes")
            if wave == 0:
                await wait_until(lambda: fleet.counts(AT_ONCE), "all of them are counted")
            # Both ways in which clients leave: with and without a reset.
            for index, connection in enumerate(connections):
                connection.cut() if index % 2 else connection.close()
        await wait_until(lambda: all_counted(fleet, "client_aborts", REQUESTS), "every abort")
        await wait_until(lambda: fleet.counts(0), "nothing is open")
        assert await total(fleet, "client_aborts") == REQUESTS
        assert await total(fleet, "resets") == 0
        assert set((await fleet.in_flight_shown()).values()) == {0}
        gate.release()


async def test_a_thousand_resets_by_the_nodes_leave_nothing_open(
    stand_in_fleet: StandInFleet, backends: list[Backend]
) -> None:
    """A third of the requests fail once and a third twice before they are served, and a third
    fail on every node of their list.
    """
    fleet = stand_in_fleet
    attempts: Counter[str] = Counter()

    async def reset_some(request: web.Request) -> web.StreamResponse:
        attempts[request.headers[REQUEST_ID]] += 1
        if attempts[request.headers[REQUEST_ID]] <= int(request.headers[RESETS]):
            return await reset(request)
        return await ok(request)

    async with fleet.running(backends):
        for backend in backends:
            backend.answer = reset_some
        numbers = iter(range(REQUESTS))

        async def client() -> None:
            for number in numbers:
                resets = number % 3 + 1
                headers = {REQUEST_ID: str(number), RESETS: str(resets)}
                async with await Connection(fleet.envoy.url).open() as connection:
                    assert await connection.ask(headers) == (503 if resets == 3 else 200)

        await asyncio.gather(*(client() for _ in range(RETRIED_AT_ONCE)))
        resets = sum(number % 3 + 1 for number in range(REQUESTS))
        served = sum(number % 3 != 2 for number in range(REQUESTS))
        assert received(backends) == resets + served
        await wait_until(
            lambda: all_counted(fleet, "resets", REQUESTS - served), "every request that failed"
        )
        await wait_until(lambda: all_counted(fleet, "succeeded", served), "every one that did not")
        await wait_until(lambda: fleet.counts(0), "nothing is open")
        assert await total(fleet, "resets") + await total(fleet, "failed_attempts") == resets
        assert set((await fleet.in_flight_shown()).values()) == {0}


async def test_a_thousand_streams_that_nodes_cut_off_leave_nothing_open(
    stand_in_fleet: StandInFleet, backends: list[Backend]
) -> None:
    """Each counts on its own node: what has begun to answer is not retried."""
    fleet = stand_in_fleet
    # However often they fail: this is about counts.
    async with fleet.running(backends, states={"eject_failures": 10 * REQUESTS}):
        for backend in backends:
            backend.answer = cut_stream
        left = iter(range(REQUESTS))

        async def client() -> None:
            for _ in left:
                async with await Connection(fleet.envoy.url).open() as connection:
                    connection.send()
                    assert (await connection.head()).status == 200
                    assert await connection.chunk() == FIRST_CHUNK
                    with pytest.raises(ConnectionError):
                        await connection.chunk()

        await asyncio.gather(*(client() for _ in range(CUT_AT_ONCE)))
        assert received(backends) == REQUESTS
        await wait_until(lambda: all_counted(fleet, "resets", REQUESTS), "every cut")
        await wait_until(lambda: fleet.counts(0), "nothing is open")
        assert await total(fleet, "resets") == REQUESTS
        assert await total(fleet, "failed_attempts") == 0
        for backend in backends:
            assert (await fleet.outcomes(backend.name))["resets"] == len(backend.received)
        assert set((await fleet.in_flight_shown()).values()) == {0}


def received(backends: list[Backend]) -> int:
    return sum(len(backend.received) for backend in backends)


async def all_counted(fleet: StandInFleet, kind: str, count: int) -> bool:
    return await total(fleet, kind) >= count


async def total(fleet: StandInFleet, kind: str) -> int:
    """How many requests ended so, on all nodes."""
    return sum(row["outcomes"][kind] for row in await fleet.node_rows())
