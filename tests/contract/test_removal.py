"""Conformance: what is gone leaves the clients, after what pointed to it."""

import pytest

from isocost.push.cache import Cache
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ROUTES
from isocost.push.variant import DELTA
from tests.contract.conftest import OpenXds
from tests.contract.xds_client import XdsClient
from tests.contract.xds_resources import clusters, endpoints, opaque

delta = pytest.mark.parametrize("variant", [DELTA], ids=["delta"], indirect=True)


async def whole_client(cache: Cache, client: XdsClient) -> None:
    """An Envoy's subscriptions, with cluster a and a route to it."""
    cache.publish(clusters("a"), endpoints("a"), opaque(ROUTES, r=b"to a"))
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    await client.subscribe(ENDPOINTS, "a")
    await client.taken(ENDPOINTS)
    await client.subscribe(ROUTES, "r")
    await client.taken(ROUTES)


async def test_removed_cluster_is_gone_from_the_next_response(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a", "b"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    cache.publish(clusters("a"))
    received = await client.taken(CLUSTER)
    if client.delta:
        assert (received.names, received.removed) == ([], ["b"])
    else:
        assert len(received.values) == 1
    cache.publish(clusters())
    received = await client.taken(CLUSTER)
    assert (received.values, received.removed) == ([], ["a"] if client.delta else [])
    await client.expect_nothing_else()


async def test_named_cluster_that_is_removed_is_gone_as_well(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a", "b"))
    client = open_xds()
    await client.subscribe(CLUSTER, "a")
    await client.taken(CLUSTER)
    cache.publish(clusters("b"))
    received = await client.taken(CLUSTER)
    assert (received.values, received.removed) == ([], ["a"] if client.delta else [])


@delta
async def test_removed_resource_that_comes_back_is_sent(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(opaque(ROUTES, r=b"1"))
    client = open_xds()
    await client.subscribe(ROUTES, "r")
    await client.taken(ROUTES)
    cache.publish(opaque(ROUTES, other=b"0"))
    assert (await client.taken(ROUTES)).removed == ["r"]
    cache.publish(opaque(ROUTES, r=b"1"))
    assert (await client.taken(ROUTES)).names == ["r"]


async def test_new_cluster_comes_before_its_route_and_the_old_one_goes_after(
    cache: Cache, open_xds: OpenXds
) -> None:
    client = open_xds()
    await whole_client(cache, client)
    cache.publish(clusters("b"), endpoints("b"), opaque(ROUTES, r=b"to b"))
    made = await client.taken(CLUSTER)
    assert made.removed == []
    assert made.names == ["b"] if client.delta else len(made.values) == 2
    # Without its endpoints the new cluster is not in use: the route waits for them.
    await client.expect_nothing_else()
    await client.subscribe(ENDPOINTS, "b")
    await client.taken(ENDPOINTS)
    assert (await client.receive(ROUTES)).values == [b"to b"]
    nonce = client.nonces[ROUTES]
    # Until the client says that it works with the new route, the old cluster stays.
    await client.expect_nothing_else()
    await client.subscribe(ROUTES, nonce=nonce)
    broken = await client.taken(CLUSTER)
    if client.delta:
        assert (broken.names, broken.removed) == ([], ["a"])
    else:
        assert len(broken.values) == 1


async def test_old_cluster_stays_while_the_new_route_is_refused(
    cache: Cache, open_xds: OpenXds
) -> None:
    client = open_xds()
    await whole_client(cache, client)
    cache.publish(clusters("b"), endpoints("b"), opaque(ROUTES, r=b"to b, wrongly"))
    await client.taken(CLUSTER)
    await client.subscribe(ENDPOINTS, "b")
    await client.taken(ENDPOINTS)
    await client.nack(await client.receive(ROUTES))
    await client.expect_nothing_else()
    cache.publish(opaque(ROUTES, r=b"to b"))
    await client.taken(ROUTES)
    broken = await client.taken(CLUSTER)
    assert broken.removed == (["a"] if client.delta else [])
