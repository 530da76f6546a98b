"""Every answer of Consul is late: requests, tables and pages do not wait for it."""

from __future__ import annotations

import time

from tests.integration.conftest import StartBackend
from tests.integration.harness.backend import Backend
from tests.integration.harness.gateway import wait_for_members
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.steady_load import SteadyLoad
from tests.integration.harness.wait import wait_until
from tests.unit.discovery.fake_consul import Answer, fake_consul, instance, late, listing

#: Less than the five seconds for which an hour is shown in virtual time, so that this one is short.
LATE_S = 2.0
PER_S = 60
#: Of a page, on a machine that is busy.
PAGE_S = 0.5
#: Five tables a second, less what a busy machine is late.
TABLES_PER_S = 4


def listed(index: int, *backends: Backend) -> Answer:
    entries = [
        instance(backend.name, address="127.0.0.1", port=int(backend.address.rpartition(":")[2]))
        for backend in backends
    ]
    return late(listing(*entries, index=index), LATE_S)


async def test_requests_tables_and_pages_go_on_while_consul_takes_seconds_for_every_answer(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}") for number in range(2)]
    new = await start_backend("node-new")
    async with fake_consul() as consul:
        begin_s = time.monotonic()
        consul.then(*(listed(index, *backends) for index in range(1, 10)))
        async with (
            fleet.running(backends, discovery={"consul": {"address": consul.address}}),
            SteadyLoad(fleet.envoy.url, PER_S) as load,
        ):
            first, load_s = (await fleet.status())["push"]["tables"], time.monotonic()
            consul.answers[:] = [listed(index, *backends, new) for index in range(20, 40)]
            pages_s: list[float] = []

            async def status_is_quick() -> bool:
                """Asked all the time until the answer with another node in it has come."""
                asked_s = time.monotonic()
                (source,) = (await fleet.status())["discovery"]["sources"]
                pages_s.append(time.monotonic() - asked_s)
                assert source["error"] is None
                return bool(source["nodes"] == 3)

            await wait_until(status_is_quick, "the late answer")
            took_s = time.monotonic() - load_s
            tables = (await fleet.status())["push"]["tables"] - first
            await wait_for_members(fleet.envoy, total=3, healthy=3)
            asked, asked_s = len(consul.asked), time.monotonic() - begin_s
    assert load.failures == [] and load.sent > PER_S
    assert max(pages_s) < PAGE_S
    assert tables >= TABLES_PER_S * took_s - 1
    # One question at a time, and the one that is open.
    assert asked <= asked_s / LATE_S + 1
    assert len(consul.connections) == 1
