"""Conformance: a client that comes back, to the same server, a restarted one or another."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import grpc
import pytest

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.options import server_options
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import CLUSTER, ENDPOINTS, EXTENSION, ROSTER, ROUTES
from isocost.push.variant import DELTA, Variant
from tests.contract.conftest import OpenXds
from tests.contract.xds_client import XdsClient
from tests.contract.xds_resources import clusters, endpoints, opaque, roster

delta = pytest.mark.parametrize("variant", [DELTA], ids=["delta"], indirect=True)


@dataclass
class Life:
    """A control plane of its own."""

    cache: Cache
    client: XdsClient


@pytest.fixture
async def life(variant: Variant) -> AsyncIterator[Callable[..., Awaitable[Life]]]:
    """Start control planes, each with a client: ``await life(resources, ...)``."""
    servers, channels = [], []

    async def start(*published: TypeResources) -> Life:
        cache = Cache()
        cache.publish(opaque(EXTENSION, echo1=b"", echo2=b""), *published)
        server = grpc.aio.server(options=server_options())
        AdsService(cache).add_to(server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        servers.append(server)
        channels.append(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        return Life(cache, XdsClient(channels[-1], variant, "envoy-1"))

    yield start
    for channel in channels:
        await channel.close()
    await asyncio.gather(*(server.stop(None) for server in servers))


@delta
async def test_known_versions_are_not_sent_again_to_a_wildcard(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a", "b"))
    first = open_xds()
    await first.subscribe(CLUSTER)
    versions = (await first.taken(CLUSTER)).versions
    cache.publish(TypeResources(CLUSTER, "b changed", _b_changed()))
    again = open_xds()
    await again.reconnected(CLUSTER, versions)
    received = await again.taken(CLUSTER)
    assert (received.names, received.removed) == (["b"], [])
    await again.expect_nothing_else()


def _b_changed() -> dict[str, bytes]:
    changed = clusters("b", marker=1).resources["b"]
    return {"a": clusters("a").resources["a"], "b": changed}


@delta
async def test_resource_removed_while_the_client_was_away_is_removed_first_thing(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a", "b"))
    first = open_xds()
    await first.subscribe(CLUSTER)
    versions = (await first.taken(CLUSTER)).versions
    cache.publish(clusters("a"))
    for names in ((), ("*",), ("a", "b")):
        again = open_xds()
        await again.reconnected(CLUSTER, versions, *names)
        assert (await again.taken(CLUSTER)).removed == ["b"]
        await again.expect_nothing_else()


@delta
async def test_named_resources_are_sent_even_if_the_client_says_it_knows_them(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a", "b"), endpoints("a", "b"))
    first = open_xds()
    await first.subscribe(ENDPOINTS, "a", "b")
    versions = (await first.taken(ENDPOINTS)).versions
    again = open_xds()
    await again.reconnected(ENDPOINTS, versions, "a", "b")
    received = await again.taken(ENDPOINTS)
    assert received.versions == versions
    await again.expect_nothing_else()


@delta
async def test_versions_of_what_the_client_does_not_follow_count_for_nothing(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, a=b"1"))
    client = open_xds()
    await client.reconnected(ROUTES, {"gone": "1"}, "a")
    received = await client.taken(ROUTES)
    assert (received.names, received.removed) == (["a"], [])
    await client.expect_nothing_else()


async def test_restarted_control_plane_answers_in_full_under_versions_of_content(
    life: Callable[..., Awaitable[Life]],
) -> None:
    received = []
    for published in (roster(1), roster(1), roster(2)):
        client = (await life(published)).client
        # A foreign nonce and a version that may look newer than all of this life's.
        await client.subscribe(ROSTER, "fleet", nonce="former.1.2", version="2")
        received.append(await client.taken(ROSTER))
        await client.expect_nothing_else()
    assert all(len(response.values) == 1 for response in received)
    assert received[0].version == received[1].version != received[2].version
    assert len({response.nonce for response in received}) == 3


async def test_switching_to_a_second_control_plane_brings_no_removed_node_back(
    life: Callable[..., Awaitable[Life]],
) -> None:
    # Both have removed b; the second one's content is a tick older or newer, never b's.
    before, after = clusters("a", "b"), clusters("a")
    one, two = await life(before), await life(before)
    await one.client.subscribe(CLUSTER)
    known = dict((await one.client.taken(CLUSTER)).versions)
    one.cache.publish(after)
    gone = await one.client.taken(CLUSTER)
    for name in gone.removed:
        del known[name]
    two.cache.publish(after)
    await two.client.reconnected(CLUSTER, known)
    received = await two.client.taken(CLUSTER)
    assert received.version == gone.version, "equal content has an equal version on both"
    assert received.removed == []
    assert received.names == [] if two.client.delta else len(received.values) == 1
    await two.client.expect_nothing_else()
