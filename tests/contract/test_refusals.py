"""Conformance: what a client refused is parked until the content changes, and shows."""

import time

import pytest

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.type_urls import CLUSTER, ENDPOINTS, ROUTES
from isocost.push.variant import DELTA
from tests.contract.conftest import OpenXds
from tests.contract.xds_resources import clusters, endpoints, opaque

#: Long enough to tell a stream at rest from one that is busy.
IDLE_S = 0.4


async def test_refused_content_is_parked_until_it_changes(
    cache: Cache, ads: AdsService, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, r=b"good"))
    client = open_xds()
    await client.subscribe(ROUTES, "r")
    good = await client.taken(ROUTES)
    cache.publish(opaque(ROUTES, r=b"bad"))
    bad = await client.receive(ROUTES)
    await client.nack(bad, "no such cluster")
    await client.expect_nothing_else()
    status = ads.clients()[0].types[ROUTES]
    assert (status.error, status.refused_version) == ("no such cluster", bad.version)
    assert status.acked_version == good.version, "the last good content is still at work"
    assert ads.nacks[ROUTES] == 1
    cache.publish(opaque(ROUTES, r=b"better"))
    await client.taken(ROUTES)
    await client.expect_nothing_else()
    status = ads.clients()[0].types[ROUTES]
    assert (status.error, status.refused_version, status.nacks) == (None, None, 1)


async def test_good_content_that_comes_back_after_a_refusal_is_sent(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, r=b"good"))
    client = open_xds()
    await client.subscribe(ROUTES, "r")
    await client.taken(ROUTES)
    cache.publish(opaque(ROUTES, r=b"bad"))
    await client.nack(await client.receive(ROUTES))
    # The client may have applied a part of what it refused.
    cache.publish(opaque(ROUTES, r=b"good"))
    assert (await client.taken(ROUTES)).values == [b"good"]
    await client.expect_nothing_else()


async def test_client_that_refuses_everything_gets_each_content_once_and_costs_nothing(
    cache: Cache, ads: AdsService, open_xds: OpenXds
) -> None:
    client = open_xds()
    await client.subscribe(ROUTES, "r")
    for content in (b"1", b"2", b"3"):
        cache.publish(opaque(ROUTES, r=content))
        await client.nack(await client.receive(ROUTES))
        await client.expect_nothing_else()
    assert ads.clients()[0].types[ROUTES].nacks == 3
    cpu_s = time.process_time()
    await client.expect_nothing_for(IDLE_S)
    # An exchange without an end would take all of it.
    assert time.process_time() - cpu_s < IDLE_S / 2


async def test_refused_endpoints_stay_parked_through_a_cluster_change(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("nodes"), endpoints("nodes"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    await client.subscribe(ENDPOINTS, "nodes")
    await client.nack(await client.receive(ENDPOINTS))
    cache.publish(clusters("nodes", marker=1))
    await client.taken(CLUSTER)
    await client.expect_nothing_else()


async def test_refusal_of_one_type_does_not_hold_another(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(clusters("a"), endpoints("a"), opaque(ROUTES, r=b"1"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.nack(await client.receive(CLUSTER))
    await client.subscribe(ROUTES, "r")
    await client.taken(ROUTES)
    cache.publish(opaque(ROUTES, r=b"2"))
    assert (await client.taken(ROUTES)).values == [b"2"]


async def test_name_that_is_asked_for_after_a_refusal_is_answered(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, first=b"1", second=b"2"))
    client = open_xds()
    await client.subscribe(ROUTES, "first")
    await client.nack(await client.receive(ROUTES))
    await client.subscribe(ROUTES, "second")
    assert b"2" in (await client.taken(ROUTES)).values


@pytest.mark.parametrize("variant", [DELTA], ids=["delta"], indirect=True)
async def test_refused_resource_stays_parked_while_another_is_asked_for(
    cache: Cache, ads: AdsService, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, bad=b"1", good=b"2"))
    client = open_xds()
    await client.subscribe(ROUTES, "bad")
    await client.nack(await client.receive(ROUTES), "bad one")
    await client.subscribe(ROUTES, "good")
    assert (await client.taken(ROUTES)).names == ["good"]
    await client.expect_nothing_else()
    assert ads.clients()[0].types[ROUTES].error == "bad one"
    cache.publish(opaque(ROUTES, bad=b"better", good=b"2"))
    assert (await client.taken(ROUTES)).names == ["bad"]
    await client.expect_nothing_else()
    assert ads.clients()[0].types[ROUTES].error is None


@pytest.mark.parametrize("variant", [DELTA], ids=["delta"], indirect=True)
async def test_refused_removal_is_parked_as_well(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(clusters("a", "b"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    cache.publish(clusters("a"))
    refused = await client.receive(CLUSTER)
    assert refused.removed == ["b"]
    await client.nack(refused)
    await client.expect_nothing_else()
    cache.publish(clusters("a", marker=1))
    again = await client.taken(CLUSTER)
    assert (again.names, again.removed) == (["a"], ["b"])
