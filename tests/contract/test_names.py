"""Conformance: the names of a subscription, known and unknown, new, again and given up."""

import pytest

from isocost.push.cache import Cache
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ROUTES
from isocost.push.variant import DELTA, WHOLE
from tests.contract.conftest import OpenXds
from tests.contract.xds_resources import clusters, endpoints, opaque

delta = pytest.mark.parametrize("variant", [DELTA], ids=["delta"], indirect=True)
whole = pytest.mark.parametrize("variant", [WHOLE], ids=["whole"], indirect=True)


async def test_known_name_is_answered_at_once_beside_an_unknown_one(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("known"), endpoints("known"))
    client = open_xds()
    await client.subscribe(ENDPOINTS, "known", "missing")
    received = await client.taken(ENDPOINTS)
    assert len(received.values) == 1
    assert received.removed == (["missing"] if client.delta else [])
    await client.expect_nothing_else()


@delta
async def test_unknown_name_is_answered_as_removed_and_sent_once_it_exists(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, other=b"0"))
    client = open_xds()
    await client.subscribe(ROUTES, "missing")
    received = await client.taken(ROUTES)
    assert (received.names, received.removed) == ([], ["missing"])
    await client.expect_nothing_else()
    cache.publish(opaque(ROUTES, other=b"0", missing=b"1"))
    assert (await client.taken(ROUTES)).values == [b"1"]


@whole
async def test_unknown_name_is_answered_once_it_exists(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(opaque(ROUTES, other=b"0"))
    client = open_xds()
    await client.subscribe(ROUTES, "missing")
    await client.expect_nothing_else()
    cache.publish(opaque(ROUTES, other=b"0", missing=b"1"))
    assert (await client.taken(ROUTES)).values == [b"1"]


async def test_nothing_is_said_of_a_type_before_it_is_published(
    cache: Cache, open_xds: OpenXds
) -> None:
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.subscribe(ENDPOINTS, "nodes")
    # Not even that there is nothing: an empty answer would end Envoy's waiting too early.
    await client.expect_nothing_else()
    cache.publish(clusters("nodes"), endpoints("nodes"))
    await client.taken(CLUSTER)
    await client.taken(ENDPOINTS)


async def test_cluster_without_nodes_has_an_explicit_empty_assignment(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("nodes"), endpoints("nodes"))
    client = open_xds()
    await client.subscribe(ENDPOINTS, "nodes")
    received = await client.taken(ENDPOINTS)
    assert len(received.values) == 1
    assert received.removed == []


async def test_new_name_is_answered(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2", third=b"3"))
    client = open_xds()
    await client.subscribe(ROUTES, "first")
    assert (await client.taken(ROUTES)).values == [b"1"]
    await client.subscribe(ROUTES, "third")
    expected = [b"3"] if client.delta else [b"1", b"3"]
    assert (await client.taken(ROUTES)).values == expected
    await client.expect_nothing_else()


async def test_name_given_up_and_asked_for_again_is_sent_again(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = open_xds()
    await client.subscribe(ROUTES, "first", "second")
    await client.taken(ROUTES)
    await client.unsubscribe(ROUTES, "first")
    await client.expect_nothing_else()
    await client.subscribe(ROUTES, "first")
    assert b"1" in (await client.taken(ROUTES)).values


@delta
async def test_name_that_is_asked_for_twice_is_sent_twice(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(opaque(ROUTES, first=b"1"))
    client = open_xds()
    for _ in range(2):
        # Hidden from the server, a client may have forgotten what it had.
        await client.subscribe(ROUTES, "first")
        assert (await client.taken(ROUTES)).values == [b"1"]


async def test_change_of_what_nobody_asked_for_is_not_sent(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = open_xds()
    await client.subscribe(ROUTES, "first")
    await client.taken(ROUTES)
    cache.publish(opaque(ROUTES, first=b"1", second=b"new"))
    await client.expect_nothing_else()


async def test_name_given_up_gets_nothing_more(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = open_xds()
    await client.subscribe(ROUTES, "first", "second")
    await client.taken(ROUTES)
    await client.unsubscribe(ROUTES, "first")
    await client.expect_nothing_else()
    cache.publish(opaque(ROUTES, first=b"new", second=b"2"))
    await client.expect_nothing_else()
    cache.publish(opaque(ROUTES, first=b"newer", second=b"new"))
    assert (await client.taken(ROUTES)).values == [b"new"]


@delta
async def test_one_changed_cluster_of_twenty_is_sent_alone_with_its_endpoints(
    cache: Cache, open_xds: OpenXds
) -> None:
    names = [f"model-{number}" for number in range(20)]
    cache.publish(clusters(*names), endpoints(*names))
    client = open_xds()
    await client.subscribe(CLUSTER)
    assert (await client.taken(CLUSTER)).names == names
    await client.subscribe(ENDPOINTS, *names)
    before = await client.taken(ENDPOINTS)
    changed = dict(clusters(*names).resources) | dict(clusters("model-7", marker=1).resources)
    cache.publish(type(clusters())(CLUSTER, "changed", changed))
    received = await client.taken(CLUSTER)
    assert (received.names, received.removed) == (["model-7"], [])
    warming = await client.taken(ENDPOINTS)
    assert warming.versions == {"model-7": before.versions["model-7"]}
    await client.expect_nothing_else()
