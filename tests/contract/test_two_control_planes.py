"""Two control planes that are not in step: a client that switches goes back to no removed node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import grpc
import pytest
from envoy_data_plane.envoy.config.endpoint.v3 import ClusterLoadAssignment

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.options import server_options
from isocost.push.resources.names import NODE_CLUSTER
from isocost.push.type_urls import ENDPOINTS, ROSTER, TABLE
from isocost.push.variant import Variant
from isocost.v1.roster_pb2 import Roster
from isocost.v1.table_pb2 import Table
from tests.contract.xds_client import XdsClient
from tests.unit.control_plane.listed_fleet import TICK_S, Clock, fleet, listed

#: A change of the list is known to every control plane by then, whichever of them is told first.
DISCOVERY_S = 1.0
FLEET = "fleet"

Switch = Callable[[Clock], Awaitable["Seen"]]


@dataclass(frozen=True)
class Seen:
    """What a new stream says of the nodes. ``versions`` are those of roster and endpoints."""

    roster: list[str]
    endpoints: list[str]
    table_rows: int
    versions: tuple[str, str]


@pytest.fixture
async def switch(variant: Variant) -> AsyncIterator[Switch]:
    """Open a stream of one Envoy to a control plane; it tells the versions that it knows."""
    servers: dict[Cache, grpc.aio.Server] = {}
    channels: dict[Cache, grpc.aio.Channel] = {}
    known: dict[str, dict[str, str]] = {}

    async def to(clock: Clock) -> Seen:
        cache = clock.cache
        if cache not in servers:
            server = servers[cache] = grpc.aio.server(options=server_options())
            AdsService(cache).add_to(server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            channels[cache] = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        client = XdsClient(channels[cache], variant, "envoy-1")
        contents, versions = {}, []
        for type_url, name in ((ENDPOINTS, NODE_CLUSTER), (ROSTER, FLEET), (TABLE, FLEET)):
            await client.reconnected(type_url, known.get(type_url, {}), name)
            received = await client.taken(type_url)
            known[type_url] = received.versions
            (contents[type_url],) = received.values
            versions.append(received.version)
        client.call.cancel()
        return Seen(
            [node.name for node in Roster.FromString(contents[ROSTER]).nodes],
            _addresses(contents[ENDPOINTS]),
            len(Table.FromString(contents[TABLE]).weight),
            (versions[1], versions[0]),
        )

    yield to
    await asyncio.gather(*(channel.close() for channel in channels.values()))
    await asyncio.gather(*(server.stop(None) for server in servers.values()))


def _addresses(content: bytes) -> list[str]:
    found = []
    for locality in ClusterLoadAssignment.parse(content).endpoints:
        for item in locality.lb_endpoints:
            assert item.endpoint is not None and item.endpoint.address is not None
            address = item.endpoint.address.socket_address
            assert address is not None
            found.append(f"{address.address}:{address.port_value}")
    return sorted(found)


def pair() -> tuple[Clock, Clock]:
    """The second one ticks half a tick after the first."""
    one, two = listed(1, 2, 3), listed(1, 2, 3)
    two.tick(TICK_S / 2)
    return one, two


async def test_a_node_that_was_removed_does_not_come_back_when_streams_switch(
    switch: Switch,
) -> None:
    one, two = pair()
    both = await switch(one), await switch(two)
    assert [seen.roster for seen in both] == [["n1", "n2", "n3"]] * 2
    one.watch.says(one.now_s, *fleet(1, 2))
    one.run(DISCOVERY_S)
    # The other one is told as late as it may be, and its table is made at the next tick.
    two.run(DISCOVERY_S - TICK_S)
    assert (await switch(two)).roster == ["n1", "n2", "n3"]
    two.watch.says(two.now_s, *fleet(1, 2))
    two.tick()
    for clock in (one, two, one, two):
        seen = await switch(clock)
        assert seen.roster == ["n1", "n2"]
        assert seen.endpoints == ["192.0.2.1:80", "192.0.2.2:80"]
        assert seen.table_rows == 2
        clock.tick()
    # Equal nodes are one roster on both: to the client nothing changes with the server.
    assert (await switch(one)).versions == (await switch(two)).versions


async def test_a_list_that_fails_and_then_comes_back_empty_brings_no_removed_node_back(
    switch: Switch,
) -> None:
    one, two = pair()
    for clock in (one, two):
        clock.watch.says(clock.now_s, *fleet(1, 2))
        clock.run(DISCOVERY_S)
    # One of them loses its list, and is told a shorter one that it does not believe.
    two.watch.fails("connection refused")
    two.run(DISCOVERY_S)
    two.watch.says(two.now_s)
    two.run(DISCOVERY_S)
    for clock in (one, two):
        seen = await switch(clock)
        assert (seen.roster, seen.table_rows) == (["n1", "n2"], 2)
