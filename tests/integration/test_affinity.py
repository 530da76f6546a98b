"""A user's requests stay in one rack, as far as that overloads no node."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

import aiohttp
import pytest
from aiohttp import web

from tests.integration.conftest import StartBackend
from tests.integration.harness.backend import Backend
from tests.integration.harness.gateway import COMPLETIONS
from tests.integration.harness.node_bound import beyond_bound, per_table
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.table_recorder import TableRecorder
from tests.integration.harness.wait import wait_until

RACKS, NODES_OF_A_RACK = 4, 8
USERS = [f"user-{number}" for number in range(1000)]
#: So long an answer takes: some requests are always open.
ANSWER_S = 0.05
#: So many times every user asks, and so many requests come each second.
TIMES, PER_S = 3, 120.0
#: A node that is not announced any more leaves the roster after this.
FORGET_MS = 1_000
DEADLINE_S = 30.0


@pytest.fixture
async def backends(start_backend: StartBackend) -> list[Backend]:
    return [
        await start_backend(f"node-{rack}-{number}", f"rack-{rack}")
        for rack in range(RACKS)
        for number in range(NODES_OF_A_RACK)
    ]


@pytest.fixture
async def keeping() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps its connections, so that it has time for many requests."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session


async def after_a_while(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(ANSWER_S)
    return web.json_response({"object": "chat.completion"})


async def ask(fleet: StandInFleet, session: aiohttp.ClientSession, user: str) -> None:
    """A prompt that begins as all of this user's do, and as no other's."""
    text = f"{user} asks: " + "words " * 400
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    headers = {"x-isocost-user": user}
    async with session.post(fleet.envoy.url + COMPLETIONS, data=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()


async def ask_at_pace(
    fleet: StandInFleet, session: aiohttp.ClientSession, users: Iterable[str], per_s: float
) -> None:
    """One request of each in turn, whatever became of those before."""
    start_s = time.monotonic()
    requests = []
    for number, user in enumerate(users):
        await asyncio.sleep(start_s + number / per_s - time.monotonic())
        requests.append(asyncio.create_task(ask(fleet, session, user)))
    await asyncio.gather(*requests)


async def nodes_of(
    fleet: StandInFleet,
    session: aiohttp.ClientSession,
    users: Sequence[str],
    backends: Sequence[Backend],
) -> Mapping[str, Backend]:
    """Where one request of each goes, one after the other and not too many between two tables."""
    for backend in backends:
        backend.received.clear()
    for user in users:
        _, _ = await asyncio.gather(ask(fleet, session, user), asyncio.sleep(1 / PER_S))
    return {
        received.headers["x-isocost-user"]: backend
        for backend in backends
        for received in backend.received
    }


async def test_nearly_all_requests_of_a_user_stay_in_one_rack(
    stand_in_fleet: StandInFleet, backends: Sequence[Backend], keeping: aiohttp.ClientSession
) -> None:
    async with stand_in_fleet.running(backends, policy="equal_cost"):
        for backend in backends:
            backend.answer = after_a_while
        users = USERS * TIMES
        random.Random(1).shuffle(users)
        await ask_at_pace(stand_in_fleet, keeping, users, PER_S)
    racks: dict[str, Counter[str]] = defaultdict(Counter)
    for backend in backends:
        for received in backend.received:
            racks[received.headers["x-isocost-user"]][backend.rack] += 1
    at_home = sum(max(counts.values()) for counts in racks.values())
    assert at_home >= 0.95 * len(users)
    per_rack = Counter(backend.rack for backend in backends for _ in backend.received)
    assert min(per_rack.values()) > 0.8 * len(users) / RACKS


async def test_five_users_with_most_of_the_traffic_overload_no_node(
    stand_in_fleet: StandInFleet, backends: Sequence[Backend], keeping: aiohttp.ClientSession
) -> None:
    fleet = stand_in_fleet
    async with (
        fleet.running(backends, policy="equal_cost"),
        TableRecorder(fleet.grpc_port) as recorder,
    ):
        # The workers' filters know of each other once their reports are in a table.
        version = await wait_until(lambda: recorder.newest_with(2), "both workers are counted")
        await wait_until(lambda: fleet.picks_from(version), "that table is picked from")
        for backend in backends:
            backend.answer = after_a_while
        rng = random.Random(1)
        users = [rng.choice(USERS[:5] if rng.random() < 0.6 else USERS) for _ in range(2500)]
        logged = len(fleet.envoy.access_log())
        await ask_at_pace(fleet, keeping, users, 1.5 * PER_S)
        entries = (await fleet.envoy.logged(logged + len(users)))[logged:]
    counts = per_table(entries)
    assert beyond_bound(counts, recorder.tables) == []
    # There is something to bound: a fifth of a rack's requests are one user's.
    assert max(table.total() for table in counts.values()) > len(backends)


async def test_a_rack_that_goes_and_a_node_that_dies_move_only_their_own_users(
    stand_in_fleet: StandInFleet, backends: Sequence[Backend], keeping: aiohttp.ClientSession
) -> None:
    fleet = stand_in_fleet
    discovery = {"lost_after_ms": FORGET_MS // 2, "forget_after_ms": FORGET_MS}
    some = USERS[:400]
    # Without the bound between two tables chance has no part in it.
    rules = {"policy": "equal_cost", "dispersion": False}
    async with fleet.running(backends, filter=rules, discovery=discovery):
        before = await nodes_of(fleet, keeping, some, backends)
        racks = Counter(node.rack for node in before.values())
        assert min(racks.values()) > 0.7 * len(some) / RACKS

        left = [backend for backend in backends if backend.rack != "rack-0"]
        fleet.announcer.nodes = tuple(backend.node for backend in left)
        await wait_until(lambda: rostered(fleet, left), "the rack is gone", DEADLINE_S)
        await picks_anew(fleet)
        less = await nodes_of(fleet, keeping, some, backends)
        moved = {user for user in some if less[user].rack != before[user].rack}
        assert moved == {user for user in some if before[user].rack == "rack-0"}
        assert {less[user].rack for user in moved} == {"rack-1", "rack-2", "rack-3"}

        dead = left[0]
        theirs = [user for user in some if less[user] is dead]
        assert theirs
        await dead.stop()
        # Until it is out its requests are served by others.
        await wait_until(
            lambda: is_out(fleet, keeping, dead, theirs), "the node is out", DEADLINE_S
        )
        await picks_anew(fleet)
        after = await nodes_of(fleet, keeping, some, left[1:])
        assert [after[user].rack for user in some] == [less[user].rack for user in some]
        others = [user for user in some if user not in theirs]
        assert sum(after[user] is less[user] for user in others) > 0.9 * len(others)


async def rostered(fleet: StandInFleet, backends: Sequence[Backend]) -> bool:
    return {row["name"] for row in await fleet.node_rows()} == {item.name for item in backends}


async def is_out(
    fleet: StandInFleet, session: aiohttp.ClientSession, dead: Backend, users: Iterable[str]
) -> bool:
    for user in users:
        await ask(fleet, session, user)
    rows = await fleet.node_rows()
    return next(row["state"] for row in rows if row["name"] == dead.name) == "ejected"


async def picks_anew(fleet: StandInFleet) -> None:
    """Return when every worker picks from a table that is made after this call."""
    version = await fleet.next_table()
    await wait_until(lambda: fleet.picks_from(version), "the new table is picked from", DEADLINE_S)
