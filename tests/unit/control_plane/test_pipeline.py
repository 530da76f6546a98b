"""A tick publishes what belongs together, and never less than was known."""

import logging
import math
from collections.abc import Callable, Set
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
from envoy_data_plane.envoy.config.core.v3 import HealthStatus
from envoy_data_plane.envoy.config.endpoint.v3 import ClusterLoadAssignment
from google.protobuf.any_pb2 import Any as Any_

from isocost import pipeline
from isocost.config import ControlPlaneConfig, DiscoverySettings, ModelPlacement
from isocost.discovery.registry import Registry
from isocost.errors import RejectedError
from isocost.manual import Manual, Note
from isocost.model import Model, NodeSample, NodeState, measured
from isocost.observe.batch import Answer, Batch, NodeObservation, Placement, PrefillSums
from isocost.observe.fleet import FleetObserver
from isocost.pipeline import ENDPOINT_WEIGHTS_S, Pipeline
from isocost.push.cache import Cache
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import (
    CLUSTER,
    ENDPOINTS,
    ESTIMATES,
    EXTENSION,
    ROSTER,
    ROUTES,
    TABLE,
)
from isocost.v1.estimates_pb2 import Estimates
from isocost.v1.roster_pb2 import Roster
from isocost.v1.table_pb2 import Table
from isocost.weight.decide import Decision
from isocost.weight.override import Override
from tests.unit.fleet_builder import KV_BYTES_PER_TOKEN, node, sample
from tests.unit.sample_blocks import agent_report

_Made = TypeVar("_Made")
UNIX_MS = 1_790_000_000_000
SETTLE_S = 5.0
#: The first roster is out by then if its nodes came at 0.
READY_S = 0.4


class Bench:
    """A pipeline with everything around it, on a clock of its own."""

    def __init__(
        self,
        manual: Manual | None = None,
        expected: Set[str] = frozenset(),
        models: tuple[ModelPlacement, ...] = (),
    ) -> None:
        settings = DiscoverySettings(settle_ms=int(SETTLE_S * 1e3))
        self.registry = Registry(settings, 0.0)
        self.cache = Cache()
        self.observer = FleetObserver(10.0, 5.0)
        self.pipeline = Pipeline(
            ControlPlaneConfig(discovery=settings, models=models),
            self.registry,
            self.observer,
            self.cache,
            manual or Manual(),
            expected,
        )
        self.sequence = 0

    def report(self, now_s: float, *samples: NodeSample) -> None:
        self.sequence += 1
        self.registry.receive(agent_report("agent", self.sequence, now_s, now_s, samples), now_s)

    def tick(self, now_s: float) -> None:
        self.pipeline.tick(now_s, UNIX_MS + int(now_s * 1e3))

    def run(self, until_s: float, *samples: NodeSample) -> None:
        """Ticks with a report before each, from one tick after the last one on."""
        latest = self.pipeline.latest
        now_s = max(latest.at_s if latest else 0.0, READY_S) + 0.2
        while now_s <= until_s + 0.01:
            self.report(now_s, *samples)
            self.tick(now_s)
            now_s += 0.2

    def states(self) -> list[NodeState]:
        return [NodeState(value) for value in self.table().state]

    def published(self, type_url: str) -> TypeResources | None:
        return self.cache.snapshot.get(type_url)

    def table(self) -> Table:
        return Table.FromString(self._fleet(TABLE))

    def roster(self) -> Roster:
        return Roster.FromString(self._fleet(ROSTER))

    def _fleet(self, type_url: str) -> bytes:
        resources = self.published(type_url)
        assert resources is not None
        return Any_.FromString(resources.resources["fleet"]).value


def serving(*samples: NodeSample, manual: Manual | None = None) -> Bench:
    """The first roster has just been published."""
    bench = Bench(manual)
    bench.report(0.0, *samples)
    bench.tick(0.1)
    bench.tick(READY_S)
    return bench


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


def test_the_first_agent_of_several_makes_no_roster_of_its_own() -> None:
    bench = Bench()
    bench.report(0.0, sample(A))
    bench.tick(0.1)
    bench.report(0.25, sample(B))
    bench.tick(0.3)
    bench.tick(0.5)
    assert bench.published(ROSTER) is None
    bench.tick(0.7)
    assert [item.name for item in bench.roster().nodes] == ["a", "b"]
    assert bench.states() == [NodeState.SERVING, NodeState.SERVING]


def test_the_first_roster_waits_for_the_nodes_of_the_last_one() -> None:
    bench = Bench(expected={"a", "b"})
    bench.report(0.0, sample(A))
    for now_s in (0.1, 1.0, 2.9):
        bench.tick(now_s)
    assert bench.published(ROSTER) is None
    bench.report(3.0, sample(A), sample(B))
    bench.tick(3.1)
    assert [item.name for item in bench.roster().nodes] == ["a", "b"]


def test_a_fleet_that_waited_in_vain_for_a_node_serves_at_once() -> None:
    bench = Bench(expected={"a", "gone"})
    now_s = 0.0
    while bench.published(TABLE) is None:
        bench.report(now_s, sample(A))
        bench.tick(now_s)
        now_s += 0.2
    assert now_s <= SETTLE_S + 0.5
    assert bench.states() == [NodeState.SERVING]


def test_nodes_whose_agents_are_silent_are_not_waited_for_by_the_next_control_plane() -> None:
    nodes = [A, B, node("c", address="192.0.2.3:8000")]
    bench = serving(*map(sample, nodes))
    assert bench.pipeline.latest is not None
    assert bench.pipeline.latest.heard_of == {"a", "b", "c"}
    bench.run(4.0, sample(A), sample(nodes[2], engine_up=False))
    assert bench.pipeline.latest is not None
    assert bench.pipeline.latest.heard_of == {"a", "c"}


def test_the_nodes_of_the_only_agent_serve_on_however_long_it_is_silent() -> None:
    bench = serving(sample(A), sample(B))
    silent_s = 10 * DiscoverySettings().forget_after_ms / 1e3
    for now_s in (10.0, silent_s, silent_s + 0.2):
        bench.tick(now_s)
    assert bench.states() == [NodeState.SUSPECT] * 2
    assert min(bench.table().weight) > 0


def test_an_agent_that_comes_back_a_little_later_still_serves_at_once() -> None:
    bench = serving(sample(A))
    bench.report(2.0, sample(A), sample(B))
    bench.tick(2.1)
    assert bench.states() == [NodeState.SERVING, NodeState.SERVING]


def test_a_node_that_comes_to_a_running_fleet_warms() -> None:
    bench = serving(sample(A))
    bench.run(SETTLE_S + 1.0, sample(A))
    bench.run(SETTLE_S + 1.2, sample(A), sample(B))
    assert bench.states() == [NodeState.SERVING, NodeState.WARMING]
    assert list(bench.table().weight) == pytest.approx([1.0, 0.1])


def test_the_table_follows_the_order_of_its_roster() -> None:
    bench = serving(sample(B, kv_usage=0.9), sample(A, kv_usage=0.0))
    names = [item.name for item in bench.roster().nodes]
    table = bench.table()
    assert names == ["a", "b"]
    assert table.roster_version == bench.roster().version
    assert table.weight[0] == 1.0
    assert 0 < table.weight[1] < 1
    assert table.built_at_unix_ms == UNIX_MS + int(READY_S * 1e3)


def test_a_restarted_engine_changes_the_roster_and_keeps_its_place() -> None:
    bench = serving(sample(A), sample(B))
    before = bench.roster()
    bench.report(1.0, sample(node("a", address=A.address, instance_id="a@2")), sample(B))
    bench.tick(1.1)
    after = bench.roster()
    assert after.version != before.version
    assert after.nodes[0].id != before.nodes[0].id
    assert after.nodes[1].id == before.nodes[1].id


def test_versions_rise_when_the_clock_stands_still_or_is_set_back() -> None:
    bench = serving(sample(A))
    versions = []
    for unix_ms in (UNIX_MS, UNIX_MS, UNIX_MS - 3_600_000, UNIX_MS + 1000):
        bench.pipeline.tick(0.5, unix_ms)
        versions.append(bench.table().version)
    assert versions == sorted(set(versions))


def endpoints(bench: Bench) -> str:
    resources = bench.published(ENDPOINTS)
    assert resources is not None
    return resources.version


def test_endpoints_follow_health_at_once_and_weights_every_ten_seconds() -> None:
    bench = serving(sample(A), sample(B))
    first = endpoints(bench)
    bench.run(1.0, sample(A), sample(B, kv_usage=0.9))
    assert endpoints(bench) == first
    bench.run(1.2, sample(A), sample(B, kv_usage=0.9, engine_up=False))
    lost = endpoints(bench)
    assert lost != first
    bench.run(1.4, sample(A), sample(B, kv_usage=0.9))
    back = endpoints(bench)
    bench.run(ENDPOINT_WEIGHTS_S + 1.0, sample(A), sample(B, kv_usage=0.5))
    bench.pipeline.refresh_endpoints(ENDPOINT_WEIGHTS_S + 1.1)
    assert endpoints(bench) == back
    bench.run(ENDPOINT_WEIGHTS_S + 2.0, sample(A), sample(B, kv_usage=0.5))
    assert endpoints(bench) == back
    bench.pipeline.refresh_endpoints(ENDPOINT_WEIGHTS_S + 2.1)
    weighed = endpoints(bench)
    # It has warmed up.
    assert weighed == first != back
    bench.run(ENDPOINT_WEIGHTS_S + 2.2, sample(A), sample(B, kv_usage=0.2))
    bench.pipeline.refresh_endpoints(ENDPOINT_WEIGHTS_S + 2.3)
    assert endpoints(bench) == weighed


def test_nothing_is_refreshed_before_the_first_roster() -> None:
    bench = Bench()
    bench.pipeline.refresh_endpoints(ENDPOINT_WEIGHTS_S + 1.0)
    assert bench.published(ENDPOINTS) is None


class FailingOnce:
    """Stands in for a part of a tick that fails once."""

    def __init__(self, then: Callable[..., _Made]) -> None:
        self._then = then
        self.failed = False

    def __call__(self, *args: object, **options: object) -> _Made:
        if not self.failed:
            self.failed = True
            raise OverflowError
        return self._then(*args, **options)


@pytest.mark.parametrize("part", ["decide", "encode_table", "integer_weights", "table_resources"])
def test_a_tick_that_fails_loses_no_change_of_nodes_or_health(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    for samples in (
        (sample(A), sample(B), sample(node("c", address="192.0.2.3:8000"))),
        (sample(A), sample(B, engine_up=False)),
    ):
        bench = serving(sample(A), sample(B))
        before, shown = endpoints(bench), bench.pipeline.latest
        with monkeypatch.context() as patch:
            failing = FailingOnce(getattr(pipeline, part))
            patch.setattr(pipeline, part, failing)
            bench.report(0.5, *samples)
            with pytest.raises(OverflowError):
                bench.tick(0.6)
            assert bench.pipeline.latest is shown
            assert endpoints(bench) == before
            bench.tick(0.8)
        assert failing.failed
        assert endpoints(bench) != before
        assert len(bench.roster().nodes) == len(samples) == len(bench.pipeline.nodes)


def test_what_may_get_nothing_is_unhealthy_to_the_fallback_and_to_retries() -> None:
    third = node("c", address="192.0.2.3:8000")
    samples = [sample(A), sample(B), sample(third)]
    for zero in (Override(weight=0.0), Override(entropy=float("inf"))):
        bench = serving(*samples)
        assert health(bench) == dict.fromkeys("abc", HealthStatus.HEALTHY)
        bench.pipeline.manual = Manual().overridden("b", zero, NOTE).drained("c", NOTE)
        bench.run(0.6, *samples)
        assert bench.states()[1] is NodeState.SERVING
        assert health(bench) == {
            "a": HealthStatus.HEALTHY,
            "b": HealthStatus.UNHEALTHY,
            "c": HealthStatus.DRAINING,
        }
        bench.pipeline.manual = Manual()
        bench.run(0.8, *samples)
        assert health(bench) == dict.fromkeys("abc", HealthStatus.HEALTHY)


def test_a_node_whose_factor_is_zero_is_unhealthy_to_the_fallback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decide_ = pipeline.decide

    def with_b_at_zero(*args: Any, **options: Any) -> Decision:
        decision = decide_(*args, **options)
        decision.state.factor[1] = 0.0
        return decision

    bench = serving(sample(A), sample(B))
    monkeypatch.setattr(pipeline, "decide", with_b_at_zero)
    bench.run(0.6, sample(A), sample(B))
    assert health(bench) == {"a": HealthStatus.HEALTHY, "b": HealthStatus.UNHEALTHY}


def health(bench: Bench) -> dict[str, HealthStatus]:
    """What Envoy is told of each node."""
    resources = bench.published(ENDPOINTS)
    assert resources is not None
    (body,) = resources.resources.values()
    assignment = ClusterLoadAssignment.parse(Any_.FromString(body).value)
    found = {}
    for locality in assignment.endpoints:
        for item in locality.lb_endpoints:
            assert item.metadata is not None
            name = item.metadata.filter_metadata["isocost"].fields["node"].string_value
            found[str(name)] = item.health_status
    return found


def test_a_suspect_rebuilds_no_balancer() -> None:
    bench = serving(sample(A), sample(B))
    first = endpoints(bench)
    failures = NodeObservation(B.id, started=20, succeeded=14, resets=6)
    bench.observer.apply(Batch("edge", 1, 1, (failures,)), 0.5)
    bench.run(0.6, sample(A), sample(B))
    assert bench.states() == [NodeState.SERVING, NodeState.SUSPECT]
    assert endpoints(bench) == first


def test_an_unknown_node_is_refused_with_the_known_names() -> None:
    bench = serving(sample(A), sample(B))
    bench.pipeline.require_known("a")
    with pytest.raises(RejectedError, match=r"no node 'c'; known: a, b"):
        bench.pipeline.require_known("c")
    bench.pipeline.manual = Manual().drained("c", Note("ana", 0.0))
    bench.pipeline.require_known("c")


NOTE = Note("ana", UNIX_MS / 1e3)


def test_an_override_is_in_the_next_table_and_gone_when_cleared() -> None:
    bench = serving(sample(A), sample(B))
    bench.pipeline.manual = Manual().overridden("a", Override(weight=0.25), NOTE)
    bench.run(0.6, sample(A), sample(B))
    assert list(bench.table().weight) == [0.25, 1.0]
    bench.pipeline.manual = Manual()
    bench.run(0.8, sample(A), sample(B))
    assert list(bench.table().weight) == [1.0, 1.0]


def test_a_drained_node_has_no_weight_in_the_very_first_table() -> None:
    bench = serving(sample(A), sample(B), manual=Manual().drained("b", NOTE))
    assert bench.states() == [NodeState.SERVING, NodeState.DRAINING]
    assert list(bench.table().weight) == [1.0, 0.0]
    assert list(bench.table().entropy)[1] == float("inf")


def test_the_time_out_of_a_drain_counts_from_the_order_also_over_a_restart() -> None:
    long_ago = Note("ana", UNIX_MS / 1e3 - 700.0)
    bench = serving(sample(A), sample(B), manual=Manual().drained("b", long_ago))
    open_stream = NodeObservation(B.id, in_flight=1)
    bench.observer.apply(Batch("edge", 1, 1, (open_stream,)), 0.5)
    bench.run(0.6, sample(A), sample(B))
    assert bench.pipeline.latest is not None
    assert bench.pipeline.latest.decision.state.standings[1].reason == "drain_timed_out"


def test_changes_of_state_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench = serving(sample(A), sample(B))
    with caplog.at_level(logging.INFO, "isocost.pipeline"):
        bench.run(0.6, sample(A), sample(B, engine_up=False))
    assert caplog.messages == ["node b: serving -> lost (engine_down)"]
    assert bench.pipeline.transitions == {
        ("none", "serving", "ok"): 2,
        ("serving", "lost", "engine_down"): 1,
    }


def test_a_change_of_the_whole_fleet_is_a_few_lines_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = [node(f"n{number}", address=f"192.0.2.{number}:80") for number in range(100)]
    with caplog.at_level(logging.INFO, "isocost.pipeline"):
        bench = serving(*(sample(item) for item in nodes))
    assert len(caplog.messages) <= 25
    assert bench.pipeline.transitions[("none", "serving", "ok")] == 100


@pytest.mark.parametrize("zero", [Override(weight=0.0), Override(entropy=float("inf"))])
def test_the_only_node_that_is_not_at_zero_by_hand_is_not_ejected(zero: Override) -> None:
    bench = serving(sample(A), sample(B), manual=Manual().overridden("a", zero, NOTE))
    failures = NodeObservation(B.id, started=20, resets=20)
    bench.observer.apply(Batch("edge", 1, 1, (failures,)), 0.5)
    bench.run(0.6, sample(A), sample(B))
    assert bench.states() == [NodeState.SERVING, NodeState.SUSPECT]


def test_what_the_gateways_work_on_is_in_the_table_once() -> None:
    bench = serving(sample(A), sample(B))
    work = NodeObservation(B.id, in_flight=2, started=2, pending_tokens=700, kv_tokens=900)
    placed, answer = Placement(B.id, (11, 12)), Answer(3, "m", 100)
    bench.observer.apply(Batch("edge", 9, 4, (work,), placements=(placed,), answers=(answer,)), 0.5)
    bench.report(0.5, sample(A), sample(B))
    bench.tick(0.6)
    table = bench.table()
    assert list(table.open) == [0, 2]
    assert list(table.pending_tokens) == [0, 700]
    assert list(table.kv_tokens) == [0, 900]
    assert list(table.capacity) == [1.0, 1.0]
    assert all(value > 0.0 for value in (*table.token_s, *table.request_s))
    assert list(table.extra_s) == [0.0, 0.0]
    assert all(value > 0.0 for value in table.kv_capacity_tokens)
    assert [(vm.incarnation, vm.sequence) for vm in table.seen] == [(9, 4)]
    assert [(item.node_id, list(item.blocks)) for item in table.placements] == [(B.id, [11, 12])]
    bench.tick(0.8)
    assert not bench.table().placements
    assert list(bench.table().pending_tokens) == [0, 700]


def test_estimates_follow_the_answers_within_two_seconds() -> None:
    bench = serving(sample(A))
    bench.observer.apply(Batch("edge", 1, 1, (), answers=(Answer(1, "m", 128),)), 0.5)
    for now_s in (0.6, 1.6, 2.6):
        bench.report(now_s, sample(A))
        bench.tick(now_s)
    made = Estimates.FromString(bench._fleet(ESTIMATES))
    assert [(model.name, model.output_tokens) for model in made.models] == [("m", 128.0)]


def test_a_slow_node_has_less_capacity_within_five_seconds() -> None:
    nodes = [node(name, address=f"192.0.2.{place}:80") for place, name in enumerate("abcd", 1)]
    bench = serving(*map(sample, nodes))
    rng = np.random.default_rng(1)

    def second(now_s: float, slow: float) -> float:
        for _ in range(5):
            now_s += 0.2
            observations = []
            for item in nodes:
                x = rng.lognormal(7.0, 0.5, 3)
                y = (0.05 + x / 15_000) * (slow if item.name == "b" else 1.0)
                sums = PrefillSums(3, x.sum(), y.sum())
                observations.append(NodeObservation(item.id, started=3, prefill=sums))
            batch = Batch("edge", 1, int(now_s * 1000), tuple(observations))
            bench.observer.apply(batch, now_s)
            bench.report(now_s, *map(sample, nodes))
            bench.tick(now_s)
        return now_s

    now_s = READY_S
    for _ in range(20):
        now_s = second(now_s, 1.0)
    assert min(bench.table().capacity) > 0.9
    for _ in range(5):
        now_s = second(now_s, 3.0)
    capacity = list(bench.table().capacity)
    assert capacity[1] < 0.55
    assert min(capacity[0], *capacity[2:]) > 0.9


def test_a_node_that_may_serve_none_of_its_models_gets_nothing() -> None:
    bench = Bench(models=(ModelPlacement(name="m", gpu_kinds=("A100",)),))
    nodes = [node("a", address="192.0.2.1:80"), node("b", address="192.0.2.2:80", gpu_kind="A100")]
    for now_s in (0.0, READY_S):
        bench.report(now_s, *map(sample, nodes))
        bench.tick(now_s + 0.1)
    bench.tick(READY_S + 0.2)
    assert [len(item.models) for item in bench.roster().nodes] == [0, 1]
    assert list(bench.table().weight) == [0.0, 1.0]
    assert list(bench.table().capacity) == [0.0, 1.0]
    assert bench.table().entropy[0] == math.inf


SMALL, LARGE = (Model(name, kv_bytes_per_token=KV_BYTES_PER_TOKEN) for name in ("small", "large"))
BOTH = node("both", address="192.0.2.3:8000", models=(SMALL, LARGE))


def test_a_node_with_two_models_is_two_rows_at_one_address_and_one_endpoint() -> None:
    bench = serving(sample(A), sample(BOTH))
    roster = bench.roster().nodes
    assert [(item.name, [model.name for model in item.models]) for item in roster] == [
        ("a", ["m"]),
        ("both", ["small"]),
        ("both", ["large"]),
    ]
    assert roster[1].address == roster[2].address == BOTH.address
    assert len(bench.states()) == 3
    assert list(health(bench)) == ["a", "both"]
    assert [item.name for item in bench.pipeline.nodes] == ["a", "both"]
    bench.pipeline.manual = Manual().overridden("both", Override(weight=0.0), NOTE)
    bench.run(1.0, sample(A), sample(BOTH))
    assert list(bench.table().weight) == list(bench.table().capacity) == [1.0, 0.0, 0.0]


def test_the_queue_of_one_model_is_none_of_the_other_s_on_the_same_node() -> None:
    bench = serving(sample(A), sample(BOTH))
    small, large = (item.id for item in bench.roster().nodes[1:])
    now_s = bench.pipeline.latest.at_s if bench.pipeline.latest else 0.0
    for tick in range(30):
        now_s += 0.2
        seen = (
            NodeObservation(small, in_flight=1, prefill=PrefillSums(2, 1000.0, 0.2)),
            NodeObservation(
                large,
                in_flight=9,
                pending_tokens=4000,
                kv_tokens=9000,
                prefill=PrefillSums(2, 1000.0, 4.0),
            ),
        )
        bench.observer.apply(Batch("edge", 1, tick + 1, seen), now_s)
        bench.report(now_s, sample(A), sample(BOTH))
        bench.tick(now_s)
    table = bench.table()
    assert list(table.open) == [0, 1, 9]
    assert list(table.pending_tokens) == [0, 0, 4000]
    assert table.token_s[2] > 5.0 * table.token_s[1]
    assert table.capacity[1] > 5.0 * table.capacity[2]
    latest = bench.pipeline.latest
    assert latest is not None
    assert latest.observed.in_flight.tolist() == [0, 10]


def heard(*samples: NodeSample) -> Table:
    """The table beside a gateway that has nothing open."""
    bench = serving(*samples)
    bench.observer.apply(Batch("edge", 1, 1, ()), 0.5)
    bench.run(0.8, *samples)
    return bench.table()


def test_each_model_has_the_kv_cache_of_its_own_engine_where_the_page_tells_them_apart() -> None:
    told = sample(BOTH, kv_pool_gb=60.0, running=9.0, waiting=4.0)
    pools = {"small": 300_000.0, "large": 20_000.0}
    engines = tuple(
        (name, replace(told.engine, kv_pool_tokens=measured(tokens), waiting=measured(waiting)))
        for (name, tokens), waiting in zip(pools.items(), (0.0, 4.0), strict=True)
    )
    known = heard(sample(A), replace(told, by_model=engines))
    assert list(known.kv_capacity_tokens)[1:] == [300_000.0, 20_000.0]
    assert list(known.weight)[1] > list(known.weight)[2]
    # Nobody's requests are in its queue.
    assert known.extra_s[1] == 0.0 < known.extra_s[2]
    whole = heard(sample(A), told)
    assert whole.kv_capacity_tokens[1] == whole.kv_capacity_tokens[2] > 300_000.0


def test_each_row_has_the_state_of_its_node() -> None:
    told = sample(BOTH)
    bench = serving(sample(A), told)
    bench.run(1.0, sample(A), replace(told, engine_up=False))
    assert bench.states() == [NodeState.SERVING, NodeState.LOST, NodeState.LOST]
    assert list(bench.table().weight) == list(bench.table().capacity) == [1.0, 0.0, 0.0]


def test_a_queue_that_is_told_for_the_whole_node_is_that_of_all_its_rows() -> None:
    told = sample(BOTH, running=9.0, waiting=4.0)
    bench = serving(sample(A), told)
    small, large = (item.id for item in bench.roster().nodes[1:])
    for tick, large_open in enumerate((7, 5), start=1):
        seen = NodeObservation(small, in_flight=6), NodeObservation(large, in_flight=large_open)
        bench.observer.apply(Batch("edge", 1, tick, seen), 0.5)
        bench.run(0.4 + 0.2 * tick, sample(A), told)
        foreign = [extra_s > 0.0 for extra_s in bench.table().extra_s]
        assert foreign == [False, *[large_open == 5] * 2]


def test_a_node_is_shown_with_the_speed_and_the_costs_of_its_first_model() -> None:
    last = node("last", address="192.0.2.4:8000", models=(LARGE,), gpu_kind="L4")
    bench = serving(sample(BOTH), sample(last))
    small, large, other = (item.id for item in bench.roster().nodes)
    for tick in range(10):
        seen = tuple(
            NodeObservation(row, prefill=PrefillSums(2, 1000.0, seconds))
            for row, seconds in ((small, 0.2), (large, 4.0), (other, 1.0))
        )
        bench.observer.apply(Batch("edge", 1, tick + 1, seen), 0.5 + 0.2 * tick)
        bench.run(0.6 + 0.2 * tick, sample(BOTH), sample(last))
    latest = bench.pipeline.latest
    assert latest is not None
    rows = latest.by_model
    assert len(set(rows.speed.tolist())) == 3
    assert latest.speed.tolist() == rows.speed[[0, 2]].tolist()
    assert latest.capacity.tolist() == rows.capacity[[0, 2]].tolist()
    assert latest.costs.token_s.tolist() == rows.costs.token_s[[0, 2]].tolist()


@pytest.mark.parametrize("name", ["running", "waiting", "kv_usage", "kv_pool_tokens"])
@pytest.mark.parametrize("kv_usage", [0.0, 0.5])
def test_a_page_with_a_number_that_cannot_be_leaves_all_nodes_with_numbers(
    name: str, kv_usage: float
) -> None:
    told = sample(B, kv_usage=kv_usage)
    engine = replace(told.engine, **{name: measured(1.7e308)})
    wrong = replace(told, engine=engine, kv_cache_age_s=measured(1.7e308))
    table = heard(sample(A, kv_usage=kv_usage), wrong)
    for values in (table.weight, table.entropy, table.capacity, table.extra_s):
        assert np.isfinite(np.array(values)).all()
    assert table.entropy[0] < 100.0
