"""Versions follow content, and a snapshot whose parts do not fit is never published."""

import pytest
from envoy_data_plane.envoy.config.cluster.v3 import Cluster, ClusterDiscoveryType

from isocost.push.cache import Cache
from isocost.push.snapshot import SnapshotError, TypeResources
from isocost.push.type_urls import CLUSTER, ROSTER, ROUTES, TABLE
from tests.contract.xds_resources import any_body, clusters, endpoints, opaque, roster, table


def test_equal_content_has_an_equal_version_in_any_order() -> None:
    one = TypeResources.hashed(ROUTES, {"a": b"1", "b": b"2"})
    two = TypeResources.hashed(ROUTES, {"b": b"2", "a": b"1"})
    assert one.version == two.version


def test_different_content_has_a_different_version() -> None:
    contents = [{}, {"a": b""}, {"a": b"b"}, {"ab": b""}, {"a": b"", "b": b""}, {"b": b"a"}]
    versions = {TypeResources.hashed(ROUTES, content).version for content in contents}
    assert len(versions) == len(contents)


def test_resources_do_not_change_with_the_mapping_they_came_from() -> None:
    source = {"a": b"1"}
    resources = TypeResources.hashed(ROUTES, source)
    source["a"] = b"2"
    assert resources.resources["a"] == b"1"


def test_publication_replaces_the_given_types_only() -> None:
    cache = Cache()
    cache.publish(roster(1), table(1))
    before = cache.snapshot
    assert cache.publish(table(2)) is True
    assert cache.snapshot.get(ROSTER) is before.get(ROSTER)
    assert before.get(TABLE) == table(1)
    assert cache.publish(table(2), roster(1)) is False


def test_cluster_without_endpoints_is_refused_once_endpoints_are_published() -> None:
    cache = Cache()
    cache.publish(clusters("a", "b"))
    with pytest.raises(SnapshotError, match="cluster b has no endpoints b"):
        cache.publish(endpoints("a"))
    cache.publish(endpoints("a", "b"))
    before = cache.snapshot
    with pytest.raises(SnapshotError, match="c"):
        cache.publish(clusters("a", "c"))
    with pytest.raises(SnapshotError, match="b"):
        cache.publish(endpoints("a"), roster(1))
    assert cache.snapshot is before
    cache.publish(clusters("a", "c"), endpoints("a", "c"))


def test_table_of_another_roster_is_refused() -> None:
    cache = Cache()
    with pytest.raises(SnapshotError, match="no published roster"):
        cache.publish(table(1))
    cache.publish(roster(1), table(1))
    with pytest.raises(SnapshotError, match="follows roster 2, published is 1"):
        cache.publish(table(2, roster_version=2))
    with pytest.raises(SnapshotError, match="follows roster 1, published is 2"):
        cache.publish(roster(2))
    cache.publish(table(2, roster_version=2), roster(2))


def test_type_that_nobody_serves_is_refused() -> None:
    with pytest.raises(SnapshotError, match="Secret"):
        Cache().publish(opaque("type.googleapis.com/Secret", a=b""))


@pytest.mark.parametrize("body", [b"\xff", any_body(TABLE, b"\xff")])
def test_table_that_is_none_is_refused(body: bytes) -> None:
    cache = Cache()
    cache.publish(roster(1))
    with pytest.raises(SnapshotError, match="not what its type says"):
        cache.publish(TypeResources(TABLE, "1", {"fleet": body}))


async def test_every_change_wakes_every_watcher_and_nothing_else_does() -> None:
    cache = Cache()
    with cache.watch() as one, cache.watch() as two:
        cache.publish(roster(1))
        assert one.is_set()
        assert two.is_set()
        one.clear()
        cache.publish(roster(1))
        with pytest.raises(SnapshotError):
            cache.publish(table(1, roster_version=9))
        assert not one.is_set()
    with cache.watch() as left:
        pass
    cache.publish(roster(2))
    assert not left.is_set()


def test_endpoints_are_wanted_under_the_clusters_service_name() -> None:
    cache = Cache()
    cache.publish(clusters("a", service="other"))
    with pytest.raises(SnapshotError, match="cluster a has no endpoints other"):
        cache.publish(endpoints("a"))
    cache.publish(endpoints("other"))


def test_cluster_without_eds_needs_no_endpoints() -> None:
    cache = Cache()
    static = any_body(CLUSTER, bytes(Cluster(name="a", type=ClusterDiscoveryType.STATIC)))
    cache.publish(TypeResources.hashed(CLUSTER, {"a": static}), endpoints())
