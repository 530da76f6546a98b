"""An Envoy that is killed takes its open requests along, and no others."""

from __future__ import annotations

import time

from tests.integration.conftest import StartBackend
from tests.integration.harness.backend import Backend, ok
from tests.integration.harness.fleet import START_S
from tests.integration.harness.held import Gate, held_stream
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.table_recorder import TableRecorder
from tests.integration.harness.wait import wait_until

#: Streams through the Envoy that stays, and through the one that is killed.
STAY, GO = 4, 12
#: A worker reports five times a second: so long after its last word, its requests are gone.
GONE_S = 3.0
#: The next table, and a machine that is busy.
SLACK_S = 1.5


async def test_a_killed_envoys_requests_are_out_of_the_count_within_three_seconds(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    fleet = stand_in_fleet
    fleet.gateways = 2
    backends = [await start_backend(f"node-{number}") for number in (1, 2, 3)]
    async with (
        fleet.running(backends, policy="weighted_random"),
        TableRecorder(fleet.grpc_port) as recorder,
    ):
        gate = Gate()
        for backend in backends:
            backend.answer = held_stream(gate)
        stays, goes = fleet.envoys
        staying = [await fleet.connect(stays) for _ in range(STAY)]
        for connection in staying:
            await connection.begin_stream()
        before = on_each(backends)
        for _ in range(GO):
            await (await fleet.connect(goes)).begin_stream()
        held = {name: count - before[name] for name, count in on_each(backends).items()}
        await wait_until(lambda: fleet.counts(STAY + GO), "all of them are counted")

        killed_unix_s = time.time()
        goes.kill()
        _, table = await wait_until(
            lambda: recorder.first_where(lambda table: table.open == before, killed_unix_s),
            "a table counts only those of the other",
        )
        took_s = table.arrived_unix_s - killed_unix_s
        print(f"out of the count after {took_s:.2f} s")
        assert took_s <= GONE_S + SLACK_S
        # A silent Envoy could be cut off and serve on: where it had requests is not known to be
        # empty until it is back.
        shown = {name: None if held[name] else count for name, count in before.items()}
        assert await fleet.in_flight() == shown
        fleet.envoys.pop()
        again = fleet.start_gateway()
        await again.wait_live()
        for backend in backends:
            backend.answer = ok

        async def is_back() -> bool:
            # A worker speaks as soon as it has had a request.
            await fleet.complete(2, envoy=again)
            return await fleet.in_flight() == before

        await wait_until(is_back, "it is back and has nothing open", START_S)
        gate.release()
        for connection in staying:
            assert await connection.chunk()
        await wait_until(lambda: fleet.counts(0), "nothing is open")


def on_each(backends: list[Backend]) -> dict[str, int]:
    """How many requests each node has got; all of them are open."""
    return {backend.name: len(backend.received) for backend in backends}
