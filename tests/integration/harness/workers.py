"""Connections on known workers of Envoy: a failure of one worker's filter must spare the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.integration.harness.connection import Connection
from tests.integration.harness.envoy import Envoy
from tests.integration.harness.wait import wait_until

_ACCEPTED = r"^listener\..*\.worker_[0-9]+\.downstream_cx_total$"


@asynccontextmanager
async def connected_to_workers(envoy: Envoy, each: int) -> AsyncIterator[list[list[Connection]]]:
    """So many connections for each worker, in no order of the workers. Nobody else may connect
    while they are opened.
    """
    opened: list[Connection] = []
    try:
        accepted = await envoy.stats(_ACCEPTED)
        by_worker: dict[str, list[Connection]] = {name: [] for name in accepted}
        # The kernel chooses the worker.
        while min(map(len, by_worker.values())) < each:
            opened.append(await Connection(envoy.url).open())
            before, accepted = accepted, await _news(envoy, accepted)
            (worker,) = (name for name in accepted if accepted[name] != before[name])
            by_worker[worker].append(opened[-1])
        yield [connections[:each] for connections in by_worker.values()]
    finally:
        for connection in opened:
            connection.cut()


async def _news(envoy: Envoy, before: dict[str, int]) -> dict[str, int]:
    """How many connections each worker has accepted, once that is not as before."""

    async def news() -> dict[str, int] | None:
        found = await envoy.stats(_ACCEPTED)
        return found if found != before else None

    return await wait_until(news, "a worker accepts")
