"""Conformance: a version says what the content is: another for other content, equal for equal."""

from isocost.push.cache import Cache
from isocost.push.fleet import encode_roster, roster_resources
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import CLUSTER, ROSTER, ROUTES
from tests.contract.conftest import OpenXds
from tests.contract.xds_resources import opaque
from tests.unit.fleet_builder import node


def roster_of(*names: str) -> TypeResources:
    return roster_resources(*encode_roster([node(name) for name in names]))


async def test_equal_rosters_have_equal_versions_and_are_not_sent_again(
    cache: Cache, open_xds: OpenXds
) -> None:
    cache.publish(roster_of("a", "b"))
    client = open_xds()
    await client.subscribe(ROSTER, "fleet")
    first = await client.taken(ROSTER)
    assert cache.publish(roster_of("a", "b")) is False
    await client.expect_nothing_else()
    cache.publish(roster_of("a"))
    second = await client.taken(ROSTER)
    cache.publish(roster_of("a", "b"))
    third = await client.taken(ROSTER)
    assert first.version == third.version != second.version
    assert first.versions == third.versions
    if client.delta:
        assert first.versions != second.versions


async def test_version_of_a_resource_is_its_own_in_delta(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(opaque(ROUTES, a=b"1", b=b"1"))
    client = open_xds()
    await client.subscribe(ROUTES, "a", "b")
    first = await client.taken(ROUTES)
    cache.publish(opaque(ROUTES, a=b"1", b=b"2"))
    second = await client.taken(ROUTES)
    assert first.version != second.version
    if client.delta:
        assert second.names == ["b"]
        assert second.versions["b"] != first.versions["b"]


def test_type_with_other_names_is_another_version() -> None:
    assert TypeResources.hashed(CLUSTER, {}).version != opaque(CLUSTER, a=b"").version
