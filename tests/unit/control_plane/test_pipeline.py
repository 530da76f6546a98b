"""A tick publishes what belongs together, and never less than was known."""

import pytest
from google.protobuf.any_pb2 import Any

from isocost.config import ControlPlaneConfig, DiscoverySettings
from isocost.discovery.registry import Registry
from isocost.discovery.report import AgentReport
from isocost.errors import RejectedError
from isocost.model import NodeSample
from isocost.observe.fleet import FleetObserver
from isocost.pipeline import ENDPOINT_WEIGHTS_S, Pipeline
from isocost.push.cache import Cache
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import CLUSTER, ENDPOINTS, EXTENSION, ROSTER, ROUTES, TABLE
from isocost.v1.roster_pb2 import Roster
from isocost.v1.table_pb2 import Table
from isocost.weight.override import Override
from tests.unit.fleet_builder import node, sample

UNIX_MS = 1_790_000_000_000
SETTLE_S = 5.0


class Bench:
    """A pipeline with everything around it, on a clock of its own."""

    def __init__(self) -> None:
        settings = DiscoverySettings(settle_ms=int(SETTLE_S * 1e3))
        self.registry = Registry(settings, 0.0)
        self.cache = Cache()
        self.pipeline = Pipeline(
            ControlPlaneConfig(discovery=settings), self.registry, FleetObserver(10.0), self.cache
        )
        self.sequence = 0

    def report(self, now_s: float, *samples: NodeSample) -> None:
        self.sequence += 1
        self.registry.receive(AgentReport("agent", self.sequence, now_s, now_s, samples), now_s)

    def tick(self, now_s: float) -> None:
        self.pipeline.tick(now_s, UNIX_MS + int(now_s * 1e3))

    def published(self, type_url: str) -> TypeResources | None:
        return self.cache.snapshot.get(type_url)

    def table(self) -> Table:
        return Table.FromString(self._fleet(TABLE))

    def roster(self) -> Roster:
        return Roster.FromString(self._fleet(ROSTER))

    def _fleet(self, type_url: str) -> bytes:
        resources = self.published(type_url)
        assert resources is not None
        return Any.FromString(resources.resources["fleet"]).value


A = node("a", address="192.0.2.1:8000")
B = node("b", address="192.0.2.2:8000")


def test_routes_cluster_and_filter_are_there_before_any_node() -> None:
    bench = Bench()
    assert all(bench.published(type_url) for type_url in (CLUSTER, ROUTES, EXTENSION))
    assert not any(bench.published(type_url) for type_url in (ENDPOINTS, ROSTER, TABLE))


def test_no_empty_roster_is_published_before_the_first_discovery() -> None:
    bench = Bench()
    bench.tick(0.0)
    bench.tick(SETTLE_S - 0.1)
    assert bench.published(ROSTER) is None
    bench.tick(SETTLE_S + 0.1)
    assert list(bench.roster().nodes) == []


def test_the_table_follows_the_order_of_its_roster() -> None:
    bench = Bench()
    bench.report(0.0, sample(B, kv_usage=0.9), sample(A, kv_usage=0.0))
    bench.tick(0.1)
    names = [item.name for item in bench.roster().nodes]
    table = bench.table()
    assert names == ["a", "b"]
    assert table.roster_version == bench.roster().version
    assert table.weight[0] == 1.0
    assert 0 < table.weight[1] < 1
    assert table.built_at_unix_ms == UNIX_MS + 100


def test_a_restarted_engine_changes_the_roster_and_keeps_its_place() -> None:
    bench = Bench()
    bench.report(0.0, sample(A), sample(B))
    bench.tick(0.1)
    before = bench.roster()
    bench.report(1.0, sample(node("a", address=A.address, instance_id="a@2")), sample(B))
    bench.tick(1.1)
    after = bench.roster()
    assert after.version != before.version
    assert after.nodes[0].id != before.nodes[0].id
    assert after.nodes[1].id == before.nodes[1].id


def test_versions_rise_when_the_clock_stands_still_or_is_set_back() -> None:
    bench = Bench()
    bench.report(0.0, sample(A))
    versions = []
    for unix_ms in (UNIX_MS, UNIX_MS, UNIX_MS - 3_600_000, UNIX_MS + 1000):
        bench.pipeline.tick(0.1, unix_ms)
        versions.append(bench.table().version)
    assert versions == sorted(set(versions))


def test_endpoints_follow_states_at_once_and_weights_every_ten_seconds() -> None:
    bench = Bench()

    def endpoints() -> str:
        resources = bench.published(ENDPOINTS)
        assert resources is not None
        return resources.version

    bench.report(0.0, sample(A), sample(B))
    bench.tick(0.1)
    first = endpoints()
    bench.report(0.2, sample(A), sample(B, kv_usage=0.9))
    bench.tick(0.3)
    assert endpoints() == first
    bench.report(0.4, sample(A), sample(B, kv_usage=0.9, engine_up=False))
    bench.tick(0.5)
    lost = endpoints()
    assert lost != first
    bench.report(ENDPOINT_WEIGHTS_S, sample(A), sample(B, kv_usage=0.5, engine_up=False))
    bench.tick(ENDPOINT_WEIGHTS_S + 0.6)
    assert endpoints() == lost
    bench.report(ENDPOINT_WEIGHTS_S + 0.7, sample(A), sample(B, kv_usage=0.9))
    bench.tick(ENDPOINT_WEIGHTS_S + 0.8)
    back = endpoints()
    assert back not in (first, lost)


def test_an_override_for_an_unknown_node_is_refused_with_the_known_names() -> None:
    bench = Bench()
    bench.report(0.0, sample(A), sample(B))
    bench.tick(0.1)
    with pytest.raises(RejectedError, match=r"no node 'c'; known: a, b"):
        bench.pipeline.set_override("c", Override(weight=1.0))


def test_an_override_is_in_the_next_table_and_gone_when_cleared() -> None:
    bench = Bench()
    bench.report(0.0, sample(A), sample(B))
    bench.tick(0.1)
    bench.pipeline.set_override("a", Override(weight=0.25))
    bench.tick(0.3)
    assert list(bench.table().weight) == [0.25, 1.0]
    bench.pipeline.set_override("a", None)
    bench.tick(0.5)
    assert list(bench.table().weight) == [1.0, 1.0]
