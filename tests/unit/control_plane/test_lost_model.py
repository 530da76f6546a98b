"""A node that serves a model no more still has that model's requests to end."""

from __future__ import annotations

from dataclasses import replace

from isocost.model import Model
from isocost.observe.batch import Batch, NodeObservation
from tests.unit.control_plane.test_pipeline import READY_S, serving
from tests.unit.fleet_builder import KV_BYTES_PER_TOKEN, node, sample

MODELS = tuple(Model(name, kv_bytes_per_token=KV_BYTES_PER_TOKEN) for name in ("small", "large"))
OTHER = node("a", address="192.0.2.1:80")
BOTH = node("b", address="192.0.2.2:80", models=MODELS)
ONE = replace(BOTH, models=MODELS[:1])


def test_what_is_open_on_a_node_counts_on_when_it_loses_a_model() -> None:
    bench = serving(sample(OTHER), sample(BOTH))
    small, large = (item.id for item in bench.roster().nodes[1:])
    seen = NodeObservation(small, in_flight=2), NodeObservation(large, in_flight=3, kv_tokens=70)
    bench.observer.apply(Batch("edge", 1, 1, seen), READY_S)
    now_s = READY_S
    for fleet, open_now in (((OTHER, BOTH), [0, 2, 3]), ((OTHER, ONE), [0, 5])):
        now_s += 0.4
        bench.run(now_s, *map(sample, fleet))
        latest = bench.pipeline.latest
        assert latest is not None
        assert latest.observed.in_flight.tolist() == [0, 5]
        assert latest.observed.kv_tokens.tolist() == [0, 70]
        assert list(bench.table().open) == open_now
