"""A worker whose filter has failed is seen, however well the others serve."""

from __future__ import annotations

from functools import partial

import aiohttp
import pytest

from tests.integration.conftest import StartBackend
from tests.integration.harness.connection import Connection
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.trap_filter import TRAP_THIS_REQUEST, trap_filter
from tests.integration.harness.wait import wait_until
from tests.integration.harness.workers import connect_to_workers

WORKERS = 4
#: A VM is dead after 3 s without a report; the rest is for a busy machine.
SHOWN_S = 8.0


@pytest.fixture
def fleet(stand_in_fleet: StandInFleet) -> StandInFleet:
    stand_in_fleet.wasm = trap_filter()
    stand_in_fleet.workers = WORKERS
    return stand_in_fleet


async def test_one_dead_worker_of_four_is_shown_until_its_next_request(
    fleet: StandInFleet, start_backend: StartBackend
) -> None:
    backends = [await start_backend(f"node-{number}") for number in range(2)]
    async with fleet.running(backends):
        broken, *others = await connect_to_workers(fleet, 2)
        for connection, _ in (broken, *others):
            assert await connection.ask() == 200
        await wait_until(lambda: shows(fleet, WORKERS), "all are alive")

        trapped, after = broken
        assert await trapped.ask(TRAP_THIS_REQUEST) == 503
        await wait_until(lambda: shows(fleet, WORKERS - 1), "one is missing", SHOWN_S)
        for connection, _ in others:
            assert await connection.ask() == 200
        assert await gauges(fleet) == {"live": WORKERS - 1.0, "missing": 1.0}

        # The Envoy knows it: a control plane that starts meanwhile need not have seen it.
        fleet.control_plane.stop()
        fleet.start_control_plane()
        await wait_until(lambda: shows(fleet, WORKERS - 1), "it is still missing", SHOWN_S)

        assert await after.ask() == 200
        await wait_until(lambda: shows(fleet, WORKERS), "all are alive again", SHOWN_S)
        assert await gauges(fleet) == {"live": WORKERS, "missing": 0.0}


async def test_workers_that_fail_again_and_again_are_not_more_than_there_are(
    fleet: StandInFleet, start_backend: StartBackend
) -> None:
    backends = [await start_backend(f"node-{number}") for number in range(2)]
    async with fleet.running(backends):
        for connections in await connect_to_workers(fleet, 4):
            spare = list(connections)
            assert await spare.pop().ask() == 200
            assert await spare.pop().ask(TRAP_THIS_REQUEST) == 503
            # A refusal ends its connection.
            serving = await wait_until(partial(reloaded, spare), "it is loaded again")
            told = await decisions(fleet)
            assert await serving.ask() == 200
            await wait_until(partial(decided, fleet, told + 1), "the new filter is heard")
        # The most that were alive at once never falls again.
        await wait_until(lambda: shows(fleet, WORKERS), "as many as there are")


async def reloaded(spare: list[Connection]) -> Connection | None:
    """A connection whose request was served."""
    connection = spare.pop()
    return connection if await connection.ask() == 200 else None


async def decisions(fleet: StandInFleet) -> int:
    """The decisions that the control plane has heard of."""
    return sum((await fleet.status())["decisions"].values())


async def decided(fleet: StandInFleet, count: int) -> bool:
    return await decisions(fleet) >= count


async def shows(fleet: StandInFleet, live: int) -> bool:
    """Does the control plane show so many workers alive, of all that there are?"""
    try:
        envoys = (await fleet.status())["envoys"]
    except aiohttp.ClientError:  # it has not started yet
        return False
    workers = {name: envoy["workers"] for name, envoy in envoys.items()}
    return workers == {"edge-1": {"live": live, "expected": WORKERS}}


async def gauges(fleet: StandInFleet) -> dict[str, float]:
    """The Envoy's workers in the metrics, by kind."""
    async with fleet.session.get(f"{fleet.http}/metrics") as response:
        lines = (await response.text()).splitlines()
    prefix, label = "isocost_envoy_workers_", '{envoy="edge-1"} '
    named = (line.removeprefix(prefix).split(label) for line in lines if label in line)
    return {kind: float(value) for kind, value in named}
