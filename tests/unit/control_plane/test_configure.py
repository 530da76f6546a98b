"""Settings that change while the control plane runs are those of every part, and cost no state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from isocost.config import (
    ControlPlaneConfig,
    DiscoverySettings,
    EntropySettings,
    EnvoySettings,
    FilterSettings,
    ModelPlacement,
    StateSettings,
    StrictSettings,
    WeightSettings,
)
from isocost.daemon import ControlPlane
from isocost.manual import Manual, Note
from isocost.model import NodeState
from isocost.observe.batch import Answer, Batch, NodeObservation
from isocost.push.type_urls import CLUSTER, ESTIMATES, EXTENSION, ROUTES
from tests.unit.control_plane.test_pipeline import A, B, Bench, serving
from tests.unit.fleet_builder import sample
from tests.unit.sample_blocks import agent_report


def settings_in(thing: object, seen: set[int]) -> Iterator[StrictSettings]:
    """All settings that an object of ours holds, however deep."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, StrictSettings):
        yield thing
    inner: list[Any] = []
    if isinstance(thing, dict):
        inner = list(thing.values())
    elif isinstance(thing, (list, tuple, set, frozenset)):
        inner = list(thing)
    elif type(thing).__module__.startswith("isocost"):
        inner = list(getattr(thing, "__dict__", {}).values())
    for one in inner:
        yield from settings_in(one, seen)


def config(**changes: object) -> ControlPlaneConfig:
    """Settings of which no part is another configuration's."""
    values: dict[str, Any] = {
        "states": StateSettings(),
        "weight": WeightSettings(),
        "entropy": EntropySettings(),
        "filter": FilterSettings(),
        "envoy": EnvoySettings(),
        "discovery": DiscoverySettings(),
        "models": (ModelPlacement(name="m"),),
    }
    return ControlPlaneConfig(**(values | changes))


def test_no_part_keeps_settings_of_before() -> None:
    before, after = config(), config()
    control_plane = ControlPlane(before)
    control_plane._configure(after)
    held = [
        item
        for part in (control_plane._pipeline, control_plane._registry, control_plane._observer)
        for item in settings_in(part, set())
    ]
    mine = {id(item) for item in settings_in(after, set())}
    assert len(held) > 5
    assert [item for item in held if id(item) not in mine] == []
    assert control_plane._config is after


@pytest.mark.parametrize(
    ("changes", "type_url"),
    [
        ({"filter": FilterSettings(policy="min_entropy")}, EXTENSION),
        ({"envoy": EnvoySettings(stream_idle_timeout_s=60)}, ROUTES),
        ({"envoy": EnvoySettings(connect_timeout_ms=500)}, CLUSTER),
        ({"models": (ModelPlacement(name="m", output_tokens=7.0),)}, ESTIMATES),
    ],
)
def test_envoys_are_told_at_the_next_tick(changes: dict[str, object], type_url: str) -> None:
    bench = serving(sample(A))
    before = bench.published(type_url)
    assert before is not None
    bench.pipeline.configure(config(**changes))
    bench.run(0.6, sample(A))
    after = bench.published(type_url)
    assert after is not None
    assert after.version != before.version


def test_equal_settings_send_nothing_anew() -> None:
    bench = serving(sample(A), sample(B))
    bench.pipeline.configure(config())
    bench.run(0.6, sample(A), sample(B))
    before = dict(bench.cache.snapshot.types)
    bench.pipeline.configure(config())
    bench.run(0.8, sample(A), sample(B))
    changed = [url for url, held in bench.cache.snapshot.types.items() if held is not before[url]]
    assert [url.rpartition(".")[2] for url in changed] == ["Table"]


def test_capacities_and_placements_are_those_of_the_new_settings() -> None:
    bench = serving(sample(A))
    entropy = bench.table().entropy[0]
    assert entropy > 0.0
    bench.pipeline.configure(config(entropy=EntropySettings(capacity={"H100": 2.0})))
    bench.run(0.6, sample(A))
    assert bench.table().entropy[0] == pytest.approx(entropy / 2)
    bench.pipeline.configure(config(models=(ModelPlacement(name="m", gpu_kinds=("A100",)),)))
    bench.run(0.8, sample(A))
    assert [list(item.models) for item in bench.roster().nodes] == [[]]
    assert bench.table().weight[0] == 0.0


def test_a_silent_agent_is_missed_after_the_new_time() -> None:
    bench = serving(sample(A))
    bench.pipeline.configure(config(discovery=DiscoverySettings(lost_after_ms=500)))
    bench.run(1.0, sample(A))
    bench.tick(1.7)
    # The only one: that may be the way to it.
    assert bench.states() == [NodeState.SUSPECT]


def test_a_node_that_nobody_names_is_forgotten_after_the_new_time() -> None:
    bench = serving(sample(A))
    bench.registry.receive(agent_report("other", 1, 0.5, 0.5, (sample(B),)), 0.5)
    bench.run(1.0, sample(A))
    assert len(bench.roster().nodes) == 2
    times = DiscoverySettings(lost_after_ms=500, forget_after_ms=1000)
    bench.pipeline.configure(config(discovery=times))
    bench.run(2.0, sample(A))
    assert [item.name for item in bench.roster().nodes] == ["a"]


def test_what_was_learned_and_ordered_stays() -> None:
    note = Note("ana@ops", 1.0, "fan")
    bench = serving(sample(A), sample(B), manual=Manual().drained("a", note))
    node = NodeObservation(A.id, started=3, succeeded=3, in_flight=2)
    bench.observer.apply(Batch("edge", 1, 1, (node,), answers=(Answer(1, "m", 50),)), 0.5)
    bench.run(1.0, sample(A), sample(B))
    before = bench.pipeline.latest
    assert before is not None
    bench.pipeline.configure(
        config(
            states=StateSettings(window_s=10.0, slow_start_s=99.0),
            weight=WeightSettings(latency_window_s=20.0),
        )
    )
    bench.run(1.2, sample(A), sample(B))
    after = bench.pipeline.latest
    assert after is not None
    assert bench.states() == [NodeState.DRAINING, NodeState.SERVING]
    assert after.decision.state.since_s.tolist() == before.decision.state.since_s.tolist()
    assert after.observed.in_flight.tolist() == [2, 0]
    assert after.observed.total.good.tolist() == [3.0, 0.0]
    # Of the evidence nothing is lost while its window becomes longer.
    assert after.observed.recent.good.tolist() == [3.0, 0.0]
    assert bench.observer.history.answers == 1
    bench.run(8.0, sample(A), sample(B))
    assert bench.pipeline.latest is not None
    assert bench.pipeline.latest.observed.recent.good.tolist() == [3.0, 0.0]


def test_due_times_follow_the_new_settings() -> None:
    bench = Bench()
    bench.report(0.0, sample(A))
    bench.tick(0.1)
    bench.run(6.0, sample(A))
    # New to a fleet that has settled: it warms, for ten seconds by default.
    bench.run(7.0, sample(A), sample(B))
    assert bench.states() == [NodeState.SERVING, NodeState.WARMING]
    bench.pipeline.configure(config(states=StateSettings(slow_start_s=2.0)))
    bench.run(9.0, sample(A), sample(B))
    assert bench.states() == [NodeState.SERVING, NodeState.SERVING]
