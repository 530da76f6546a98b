"""Each model of a node has the queue and the KV cache of its own engine, if the page tells it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from isocost.model import EngineSample, Model, NodeSample, SignalState, measured
from isocost.score.model_engines import ModelEngines, model_engines
from isocost.score.model_rows import model_rows
from isocost.score.telemetry import FleetTelemetry, fleet_telemetry, kv_bytes_per_token
from isocost.score.vram import free_vram_share
from isocost.weight.gauges import Gauges
from tests.unit.fleet_builder import ABSENT, node, sample
from tests.unit.sample_blocks import fleet_samples

SMALL = Model("small", kv_bytes_per_token=100_000)
LARGE = Model("large", aliases=("big",), kv_bytes_per_token=1_000_000)
BOTH = node("both", models=(SMALL, LARGE))


def engine(pool_tokens: float, usage: float, waiting: float = 0.0) -> EngineSample:
    return EngineSample(
        running=measured(1.0),
        waiting=measured(waiting),
        kv_usage=measured(usage),
        kv_pool_tokens=measured(pool_tokens),
    )


#: 30 GB each: of the small one's all is free, of the large one's half.
ENGINES = (("small", engine(300_000, 0.0)), ("big", engine(30_000, 0.5, waiting=4.0)))


def read(*samples: NodeSample) -> tuple[FleetTelemetry, ModelEngines]:
    nodes = [item.node for item in samples]
    rows = model_rows(nodes)
    told, ages_s = fleet_samples(samples), [0.0] * len(nodes)
    engines = model_engines(rows, kv_bytes_per_token(rows.nodes), told, ages_s)
    assert engines is not None
    return fleet_telemetry(kv_bytes_per_token(nodes), told, ages_s), engines


def test_a_row_has_its_own_engine_s_numbers_under_any_name_of_the_model() -> None:
    alone = sample(node("a"), waiting=7.0)
    nodes, engines = read(alone, replace(sample(BOTH, waiting=4.0), by_model=ENGINES))
    rows = engines.on_rows(nodes)
    assert engines.told.tolist() == [False, True, True]
    assert rows.waiting.value.tolist() == [7.0, 0.0, 4.0]
    assert rows.kv_pool_tokens.value.tolist()[1:] == [300_000.0, 30_000.0]
    assert rows.kv_pool_bytes.value.tolist()[1:] == [30e9, 30e9]
    assert rows.vram_total_bytes.value.tolist() == [80e9] * 3


def test_rows_of_a_page_that_tells_no_models_apart_have_the_node_s_numbers() -> None:
    nodes, engines = read(sample(BOTH, waiting=4.0))
    rows = engines.on_rows(nodes)
    assert not engines.told.any()
    assert rows.waiting.value.tolist() == [4.0, 4.0]
    assert rows.kv_pool_tokens.value[0] == nodes.kv_pool_tokens.value[0]
    assert engines.on_nodes(nodes).kv_pool_bytes.value == nodes.kv_pool_bytes.value


def test_what_is_not_believed_of_a_node_is_not_of_its_engines() -> None:
    nodes, engines = read(replace(sample(BOTH), by_model=ENGINES))
    unknown = replace(nodes.waiting, state=np.zeros(1, dtype=np.int8))
    assert not engines.on_rows(replace(nodes, waiting=unknown)).waiting.known.any()


def test_what_is_old_of_a_node_is_as_old_of_its_engines() -> None:
    silent = replace(ENGINES[1][1], running=ABSENT)
    nodes, engines = read(replace(sample(BOTH), by_model=(ENGINES[0], ("big", silent))))
    old = Gauges(np.array([60.0]), *(np.array([flag]) for flag in (True, False, False)))
    rows = engines.on_rows(old.applied(nodes))
    assert rows.waiting.value.tolist() == [0.0, 4.0]
    assert rows.waiting.state.tolist() == rows.kv_usage.state.tolist() == [SignalState.STALE] * 2
    assert rows.waiting.age_s.tolist() == rows.kv_usage.age_s.tolist() == [60.0, 60.0]
    assert rows.running.state.tolist() == [SignalState.STALE, SignalState.ABSENT]


def test_a_node_s_kv_caches_count_by_their_own_bytes() -> None:
    nodes, engines = read(replace(sample(BOTH, free_gb=10.0), by_model=ENGINES))
    share = free_vram_share(engines.on_nodes(nodes)).value[0]
    assert share == pytest.approx((10.0 + 30.0 + 15.0) / 80.0)


def test_a_kv_cache_that_is_not_told_leaves_the_node_as_it_was() -> None:
    silent = replace(ENGINES[1][1], kv_usage=ABSENT)
    told = replace(sample(BOTH), by_model=(ENGINES[0], ("big", silent)))
    nodes, engines = read(told)
    assert engines.on_nodes(nodes).kv_pool_bytes.value == nodes.kv_pool_bytes.value
