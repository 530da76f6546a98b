"""A conversation that must leave its node tells the next one where its beginning is cached."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import aiohttp
import pytest

from isocost.config import FilterSettings
from isocost.model import NodeState
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import Backend, Received
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.filters import without_filter
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import post, serving, wait_for_members
from tests.integration.harness.picking import picking_envoy, wait_for_table

HEADER = "x-isocost-previous-node"
TURN = "what was said before counts for what is said next, "
#: The work of minutes.
OVERLOAD_TOKENS = 3_000_000


@dataclass
class Talk:
    """A conversation: every turn is sent with all that came before."""

    client: aiohttp.ClientSession
    envoy: Envoy
    backends: Sequence[Backend]
    name: str = "talk"
    messages: list[dict[str, str]] = field(default_factory=list)

    async def turn(self, headers: Sequence[tuple[str, str]] = ()) -> tuple[Backend, Received]:
        """Say something; the node that got it, and what it got."""
        number = len(self.messages)
        self.messages.append({"role": "user", "content": f"{self.name} {number}: {TURN * 60}"})
        before = {backend.name: len(backend.received) for backend in self.backends}
        body = json.dumps({"messages": self.messages}).encode()
        assert (await post(self.client, self.envoy, headers, body))[0] == 200
        self.messages.append({"role": "assistant", "content": f"{number}: {TURN * 5}"})
        (node,) = (one for one in self.backends if len(one.received) > before[one.name])
        return node, node.received[-1]


@dataclass
class DataPath:
    envoy: Envoy
    rows: list[Row]
    feed: FleetFeed
    client: aiohttp.ClientSession

    def row(self, backend: Backend) -> Row:
        return next(row for row in self.rows if row.backend is backend)

    async def publish(self) -> None:
        """Return when the filter picks from the rows as they are now. Between two tables no node
        gets much more than its share, so that the turns of one table would be spread.
        """
        await wait_for_table(self.client, self.envoy, self.feed.publish())

    def talk(self, name: str) -> Talk:
        return Talk(self.client, self.envoy, [row.backend for row in self.rows], name)


@pytest.fixture
async def path(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> AsyncIterator[DataPath]:
    rows = [Row(await start_backend(f"node-{number}")) for number in range(3)]
    async with FleetFeed(ads, rows) as feed:
        backends = [row.backend for row in rows]
        envoy = await picking_envoy(start_envoy, ads, client, backends, FilterSettings())
        yield DataPath(envoy, rows, feed, client)


async def test_a_conversation_stays_and_says_nothing_of_it(path: DataPath) -> None:
    for name in ("first", "second", "third"):
        talk = path.talk(name)
        home, _ = await talk.turn()
        for _ in range(4):
            await path.publish()
            node, received = await talk.turn()
            assert node is home
            assert HEADER not in received.headers


@pytest.mark.parametrize("reason", ["overloaded", "draining", "ejected"])
async def test_the_next_node_is_told_the_one_before(path: DataPath, reason: str) -> None:
    talk = path.talk("first")
    home, received = await talk.turn()
    assert HEADER not in received.headers
    if reason == "overloaded":
        path.row(home).pending_tokens = OVERLOAD_TOKENS
    else:
        path.row(home).state = NodeState[reason.upper()]
    await path.publish()
    node, received = await talk.turn()
    assert node is not home
    assert received.headers.getall(HEADER) == [home.address]
    # From now on the new one holds as much and more.
    for _ in range(3):
        await path.publish()
        again, received = await talk.turn()
        assert again is node
        assert HEADER not in received.headers
    # Others' conversations have another beginning.
    _, received = await path.talk("second").turn()
    assert HEADER not in received.headers


async def test_a_system_prompt_that_many_have_is_nobodys_conversation(path: DataPath) -> None:
    system = {"role": "system", "content": TURN * 200}
    first = path.talk("first")
    first.messages.append(system)
    home, _ = await first.turn()
    path.row(home).pending_tokens = OVERLOAD_TOKENS
    await path.publish()
    second = path.talk("second")
    second.messages.append(system)
    node, received = await second.turn()
    assert node is not home
    assert HEADER not in received.headers


async def test_a_clients_own_header_is_replaced_or_removed(path: DataPath) -> None:
    talk = path.talk("first")
    forged = [(HEADER, "203.0.113.9:1"), (HEADER.title(), "203.0.113.9:2")]
    home, received = await talk.turn(forged)
    assert HEADER not in received.headers
    path.row(home).state = NodeState.DRAINING
    await path.publish()
    _, received = await talk.turn(forged)
    assert received.headers.getall(HEADER) == [home.address]


@pytest.mark.parametrize("with_filter", [True, False], ids=["filter", "no filter"])
async def test_a_clients_own_header_reaches_no_engine_without_a_table_or_a_filter(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
    with_filter: bool,
) -> None:
    backend = await start_backend("node-1")
    ads.publish(serving(backend))
    data = local_bootstrap(ads.port)
    envoy = start_envoy(data if with_filter else without_filter(data))
    await wait_for_members(envoy, total=1, healthy=1)
    for name in (HEADER, HEADER.title()):
        assert (await post(client, envoy, [(name, "203.0.113.9:1")]))[0] == 200
    assert len(backend.received) == 2
    assert not any(HEADER in request.headers for request in backend.received)
