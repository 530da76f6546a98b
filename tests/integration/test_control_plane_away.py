"""A control plane that is gone or stands still for 10 s: nothing fails, nothing piles up."""

from __future__ import annotations

import os
import signal

import pytest

from tests.integration.conftest import StartBackend
from tests.integration.harness.backend import ok
from tests.integration.harness.fleet import decision_fields
from tests.integration.harness.held import LAST_CHUNK, Gate, held_stream
from tests.integration.harness.memory import rss_growth
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.steady_load import SteadyLoad
from tests.integration.harness.wait import wait_until

AWAY_S = 10.0
PER_S = 100
STREAMS = 20
FLAT_SHARE = 0.01
#: What was told to a control plane that had already ceased to read is lost, and no more than that:
#: the rest waits for it. A process that stands still shows it by its silence only.
TOLD_LATER = {"killed": 0.9, "stopped": 0.6}


@pytest.mark.parametrize("way", TOLD_LATER)
async def test_nothing_fails_or_grows_while_the_control_plane_is_away(
    stand_in_fleet: StandInFleet, start_backend: StartBackend, way: str
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}") for number in range(4)]
    async with fleet.running(backends):
        gates = {backend.node.name: Gate() for backend in backends}
        for backend in backends:
            backend.answer = held_stream(gates[backend.node.name])
        streams = [await fleet.connect() for _ in range(STREAMS)]
        for stream in streams:
            await stream.begin_stream()
        for backend in backends:
            backend.answer = ok
        held = {name: gate.waiting for name, gate in gates.items()}
        assert sum(held.values()) == STREAMS
        await wait_until(lambda: reads(fleet, held), "every stream is counted")

        async with SteadyLoad(fleet.envoy.url, PER_S) as load:
            await wait_until(lambda: load.sent >= PER_S, "load")
            before = await decisions(fleet) if way == "stopped" else 0
            sent = load.sent
            take_away(fleet, way)
            growth = await rss_growth({"Envoy": fleet.envoy.pid}, AWAY_S)
            missed = load.sent - sent
            assert last_age_ms(fleet) >= (AWAY_S - 1) * 1e3
            bring_back(fleet, way)
            await wait_until(lambda: last_age_ms(fleet) < 1e3, "fresh tables")
        try:
            await wait_until(lambda: reads(fleet, held), "the same figures as before")
        except AssertionError as error:
            error.add_note(f"{await fleet.in_flight()} instead of {held}; {await fleet.status()}")
            raise
        told = await decisions(fleet) - before - (load.sent - sent - missed)

        for gate in gates.values():
            gate.release()
        for stream in streams:
            assert [await stream.chunk(), await stream.chunk()] == [LAST_CHUNK, b""]
        await wait_until(lambda: fleet.counts(0), "every count is 0")
    print(
        f"{way}: told later of {told} of {missed} requests; memory of Envoy {growth['Envoy']:+.3%}"
    )
    assert load.failures == []
    assert growth["Envoy"] <= FLAT_SHARE
    assert told >= TOLD_LATER[way] * missed


def take_away(fleet: StandInFleet, way: str) -> None:
    if way == "killed":
        fleet.control_plane.kill()
    else:
        os.kill(fleet.control_plane.pid, signal.SIGSTOP)


def bring_back(fleet: StandInFleet, way: str) -> None:
    if way == "killed":
        fleet.start_control_plane()
    else:
        os.kill(fleet.control_plane.pid, signal.SIGCONT)


def last_age_ms(fleet: StandInFleet) -> int:
    """How old the table was that decided the last request."""
    return int(decision_fields(fleet.envoy.access_log()[-1])["age_ms"])


async def decisions(fleet: StandInFleet) -> int:
    """The requests that the control plane has been told of."""
    return sum((await fleet.status())["decisions"].values())


async def reads(fleet: StandInFleet, counted: dict[str, int]) -> bool:
    return await fleet.in_flight() == counted
