"""Connections on known workers of Envoy: a failure of one worker's filter must spare the others."""

from __future__ import annotations

from tests.integration.harness.connection import Connection
from tests.integration.harness.envoy import Envoy
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

_ACCEPTED = r"^listener\..*\.worker_[0-9]+\.downstream_cx_total$"


async def connect_to_workers(fleet: StandInFleet, each: int) -> list[list[Connection]]:
    """So many connections for each worker, in no order of the workers. Nobody else may connect
    meanwhile.
    """
    accepted = await fleet.envoy.stats(_ACCEPTED)
    by_worker: dict[str, list[Connection]] = {name: [] for name in accepted}
    # The kernel chooses the worker.
    while min(map(len, by_worker.values())) < each:
        connection = await fleet.connect()
        before, accepted = accepted, await _news(fleet.envoy, accepted)
        (worker,) = (name for name in accepted if accepted[name] != before[name])
        by_worker[worker].append(connection)
    return [connections[:each] for connections in by_worker.values()]


async def _news(envoy: Envoy, before: dict[str, int]) -> dict[str, int]:
    """How many connections each worker has accepted, once that is not as before."""

    async def news() -> dict[str, int] | None:
        found = await envoy.stats(_ACCEPTED)
        return found if found != before else None

    return await wait_until(news, "a worker accepts")
