"""Requests that arrive all at once: by how much they herd is seen node by node."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

from tests.integration.harness.backend import Backend
from tests.integration.harness.connection import Connection
from tests.integration.harness.fleet import decision_fields, table_of
from tests.integration.harness.held import Gate, held_answer
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

Entries = list[dict[str, Any]]


async def make_one_the_best(fleet: StandInFleet, backends: Sequence[Backend]) -> None:
    """Entropies by hand, the first backend's the lowest by a little; every worker knows them."""
    for place, backend in enumerate(backends):
        await fleet.override(backend.name, entropy=1.0 + place / 1000)
    version = await fleet.next_table()
    for envoy in fleet.envoys:
        await wait_until(partial(fleet.picks_from, version, envoy), "every worker has that table")


async def burst(
    fleet: StandInFleet, backends: Iterable[Backend], connections: Sequence[Connection]
) -> Entries:
    """The access log's entries of one request on each connection, all sent at once. No answer
    begins before the last request has arrived.
    """
    # What was open before is known to be over.
    await wait_until(lambda: fleet.counts(0), "nothing is open")
    gate = Gate()
    for backend in backends:
        backend.answer = held_answer(gate)
    # Entries of others may come late.
    clients = {connection.address for connection in connections}
    before = [len(envoy.access_log()) for envoy in fleet.envoys]
    for connection in connections:
        connection.send()
    await wait_until(lambda: gate.waiting == len(connections), "every request has arrived")
    gate.release()
    statuses = await asyncio.gather(*(connection.answer() for connection in connections))
    assert set(statuses) == {200}

    def entries() -> Entries:
        new = (
            envoy.access_log()[begin:] for envoy, begin in zip(fleet.envoys, before, strict=True)
        )
        return [entry for entry in chain.from_iterable(new) if entry["client"] in clients]

    await wait_until(lambda: len(entries()) == len(connections), "every request is logged")
    return entries()


def by_table(entries: Entries) -> dict[int, Entries]:
    """The entries by the version of the table that decided; every one must have been picked."""
    found: dict[int, Entries] = defaultdict(list)
    for entry in entries:
        assert decision_fields(entry)["reason"] == "picked", entry
        found[table_of(entry)].append(entry)
    return found
