"""Conformance: endpoints follow every change of their cluster, or it would never be in use."""

from isocost.push.cache import Cache
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ROUTES
from tests.contract.conftest import OpenXds
from tests.contract.xds_resources import clusters, endpoints, opaque


async def test_equal_endpoints_are_sent_again_after_each_cluster_change(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("nodes"), endpoints("nodes"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    await client.subscribe(ENDPOINTS, "nodes")
    first = await client.taken(ENDPOINTS)
    for marker in (1, 2):
        cache.publish(clusters("nodes", marker=marker))
        await client.taken(CLUSTER)
        again = await client.taken(ENDPOINTS)
        assert (again.version, again.values) == (first.version, first.values)
    await client.expect_nothing_else()


async def test_endpoints_under_a_service_name_follow_their_cluster(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("nodes", service="by-service"), endpoints("by-service"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    await client.subscribe(ENDPOINTS, "by-service")
    await client.taken(ENDPOINTS)
    cache.publish(clusters("nodes", service="by-service", marker=1))
    await client.taken(CLUSTER)
    assert len((await client.taken(ENDPOINTS)).values) == 1


async def test_endpoints_follow_a_cluster_that_the_client_refused(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("nodes"), endpoints("nodes"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    await client.subscribe(ENDPOINTS, "nodes")
    await client.taken(ENDPOINTS)
    cache.publish(clusters("nodes", marker=1))
    await client.nack(await client.receive(CLUSTER))
    # Envoy takes the clusters of a response one by one: this one may be warming.
    await client.taken(ENDPOINTS)
    await client.expect_nothing_else()


async def test_types_come_in_the_order_that_makes_before_it_breaks(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("nodes"), endpoints("nodes"), opaque(ROUTES, r=b"1"))
    client = open_xds()
    subscriptions: dict[str, tuple[str, ...]] = {
        CLUSTER: (),
        ENDPOINTS: ("nodes",),
        ROUTES: ("r",),
    }
    for type_url, names in subscriptions.items():
        await client.subscribe(type_url, *names)
        await client.taken(type_url)
    cache.publish(opaque(ROUTES, r=b"2"), clusters("nodes", marker=1))
    for type_url in subscriptions:
        await client.taken(type_url)
    await client.expect_nothing_else()


async def test_clients_that_follow_no_endpoints_get_their_routes(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("nodes"), endpoints("nodes"), opaque(ROUTES, r=b"1"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    await client.subscribe(ROUTES, "r")
    await client.taken(ROUTES)
    await client.expect_nothing_else()
