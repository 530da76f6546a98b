"""Conformance: a subscription to everything is a state of its own, beside the names."""

import pytest

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.type_urls import CLUSTER, ROUTES
from isocost.push.variant import DELTA, WHOLE
from tests.contract.conftest import OpenXds
from tests.contract.xds_resources import clusters, opaque

delta = pytest.mark.parametrize("variant", [DELTA], ids=["delta"], indirect=True)
whole = pytest.mark.parametrize("variant", [WHOLE], ids=["whole"], indirect=True)


@pytest.mark.parametrize("names", [(), ("*",)], ids=["legacy", "explicit"])
async def test_wildcard_gets_all_that_is_and_all_that_comes(
    names: tuple[str, ...], cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a"))
    client = open_xds()
    await client.subscribe(CLUSTER, *names)
    assert len((await client.taken(CLUSTER)).values) == 1
    cache.publish(clusters("a", "b"))
    received = await client.taken(CLUSTER)
    assert received.names == ["b"] if client.delta else len(received.values) == 2
    await client.expect_nothing_else()


async def test_wildcard_with_nothing_to_send_is_answered_so_that_nobody_waits(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters())
    client = open_xds()
    await client.subscribe(CLUSTER)
    received = await client.taken(CLUSTER)
    assert (received.values, received.removed) == ([], [])
    await client.expect_nothing_else()


@delta
async def test_legacy_wildcard_outlives_a_name_until_it_is_given_up(
    cache: Cache, ads: AdsService, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a", "b"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    await client.subscribe(CLUSTER, "a")
    assert (await client.taken(CLUSTER)).names == ["a"], "a name is answered even if it is known"
    cache.publish(clusters("a"))
    assert (await client.taken(CLUSTER)).removed == ["b"]
    cache.publish(clusters("a", "b"))
    assert (await client.taken(CLUSTER)).names == ["b"]
    await client.unsubscribe(CLUSTER, "*")
    await client.expect_nothing_else()
    status = ads.clients()[0].types[CLUSTER]
    assert (status.wildcard, status.names) == (False, ("a",))
    cache.publish(clusters("a", "b", "c", marker=1))
    assert (await client.taken(CLUSTER)).names == ["a"]
    await client.unsubscribe(CLUSTER, "a")
    await client.expect_nothing_else()
    # As empty as at first, and not everything again.
    cache.publish(clusters("a", "b", marker=2))
    await client.expect_nothing_else()


@whole
async def test_wildcard_outlives_names_beside_it_and_ends_without_it(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a", "b"))
    client = open_xds()
    await client.subscribe(CLUSTER)
    await client.taken(CLUSTER)
    await client.subscribe(CLUSTER, "*", "a")
    await client.expect_nothing_else()
    cache.publish(clusters("a", "b", marker=1))
    assert len((await client.taken(CLUSTER)).values) == 2
    await client.unsubscribe(CLUSTER, "*")
    await client.expect_nothing_else()
    cache.publish(clusters("a", "b", marker=2))
    assert len((await client.taken(CLUSTER)).values) == 1
    await client.unsubscribe(CLUSTER, "a")
    await client.expect_nothing_else()
    cache.publish(clusters("a", "b", marker=3))
    await client.expect_nothing_else()


@delta
async def test_name_given_up_under_a_wildcard_is_answered_with_what_everything_says_of_it(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a"))
    client = open_xds()
    await client.subscribe(CLUSTER, "*", "a", "missing")
    first = await client.taken(CLUSTER)
    assert (first.names, first.removed) == (["a"], ["missing"])
    await client.unsubscribe(CLUSTER, "a", "missing")
    answer = await client.taken(CLUSTER)
    assert (answer.names, answer.removed) == (["a"], ["missing"])
    # Never subscribed to: ignored.
    await client.unsubscribe(CLUSTER, "phantom")
    await client.expect_nothing_else()
    cache.publish(clusters("a", marker=1))
    assert (await client.taken(CLUSTER)).names == ["a"]


@delta
async def test_explicit_wildcard_after_a_name_brings_the_others(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a", "b"))
    client = open_xds()
    await client.subscribe(CLUSTER, "a")
    await client.taken(CLUSTER)
    await client.subscribe(CLUSTER, "*")
    assert (await client.taken(CLUSTER)).names == ["b"]
    await client.expect_nothing_else()


@delta
async def test_first_request_that_only_gives_up_names_asks_for_nothing(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(clusters("a"))
    client = open_xds()
    client.names[CLUSTER] = ["a"]
    await client.unsubscribe(CLUSTER, "a")
    await client.expect_nothing_else()


async def test_no_names_is_no_wildcard_for_types_that_have_none(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(opaque(ROUTES, first=b"1"))
    client = open_xds()
    await client.subscribe(ROUTES)
    await client.expect_nothing_else()
