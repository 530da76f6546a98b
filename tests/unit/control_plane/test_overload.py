"""A node that is overloaded in its engine's queue is the last choice of every policy that looks at
load, though its KV cache is far from full: from a real page of such an engine to the table.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from isocost.model import NodeSample
from isocost.observe.batch import Batch, NodeObservation
from isocost.score.columns import Floats
from isocost.telemetry.engines.sglang import read_page
from isocost.v1.table_pb2 import Table
from tests.unit.control_plane.test_pipeline import READY_S, Bench, serving
from tests.unit.fleet_builder import node, sample
from tests.unit.telemetry.pages import recorded

#: What each busy node has: KV usage, running and waiting requests. One has a full cache, ...
BUSY = ((0.3, 40), (0.45, 64), (0.6, 90), (0.7, 100), (0.8, 128), (0.9, 120), (1.0, 128))
WAITING = (0, 0, 1, 0, 4, 2, 8)
#: ... its requests are this old and this long.
AGE_S, PROMPT_TOKENS, OUTPUT_TOKENS = 6.0, 1000, 250
NODES = [node(f"n{number}", address=f"192.0.2.{number}:80") for number in range(1, 9)]
OVERLOADED = 3
OTHERS = [index for index in range(8) if index != OVERLOADED]

#: What one request adds to the entropy in the filter: 0.1, and 0.3 for each GB of its KV cache.
REQUEST_ENTROPY = 0.1 + 0.3 * (PROMPT_TOKENS + OUTPUT_TOKENS) * 131_072 / 1e9
#: The most requests that an engine takes at a time by default.
MAX_RUNNING = 256


def samples() -> list[NodeSample]:
    found = [
        sample(of, kv_usage=kv, running=running, waiting=waiting)
        for of, (kv, running), waiting in zip(
            [NODES[index] for index in OTHERS], BUSY, WAITING, strict=True
        )
    ]
    page = read_page(recorded("sglang", "sglang-saturated-llama31-8b.txt")).sample
    found.insert(OVERLOADED, replace(sample(NODES[OVERLOADED]), engine=page))
    return found


def seen(of: NodeSample) -> NodeObservation:
    """By gateways that sent all that is open there."""
    running, waiting = int(of.engine.running.value), int(of.engine.waiting.value)
    count = running + waiting
    return NodeObservation(
        of.node.id,
        in_flight=count,
        open_age_s_sum=count * AGE_S,
        pending_tokens=waiting * PROMPT_TOKENS,
        kv_tokens=count * (PROMPT_TOKENS + OUTPUT_TOKENS),
    )


def fleet(own: bool) -> Bench:
    """``own``: the gateways sent what waits in the overloaded engine; else they know of nothing."""
    told = samples()
    bench = serving(*told)
    known = [seen(of) for index, of in enumerate(told) if own or index != OVERLOADED]
    now_s = READY_S + 0.2
    bench.observer.apply(Batch("edge", 1, 1, tuple(known)), now_s)
    bench.report(now_s, *told)
    bench.tick(now_s)
    return bench


def predicted_s(table: Table) -> Floats:
    """A request's time to its first token on each node, [n], as filter/core/src/pick/cost.rs has
    it, but for the KV cache: that of the overloaded engine is not known.
    """
    pending, open_requests, token_s, request_s, extra_s = (
        np.array(values, dtype=np.float64)
        for values in (
            table.pending_tokens,
            table.open,
            table.token_s,
            table.request_s,
            table.extra_s,
        )
    )
    result: Floats = (pending + PROMPT_TOKENS) * token_s + open_requests * request_s + extra_s
    return result


def test_the_page_tells_the_queue_and_a_cache_that_is_far_from_full() -> None:
    engine = samples()[OVERLOADED].engine
    assert (engine.running.value, engine.waiting.value, engine.kv_usage.value) == (162, 2826, 0.28)


@pytest.mark.parametrize("own", [False, True])
def test_its_entropy_is_ten_times_that_of_busy_nodes(own: bool) -> None:
    entropy = np.array(fleet(own).table().entropy)
    others = entropy[OTHERS]
    assert entropy[OVERLOADED] > 10.0 * np.median(others)
    # Also of the one whose cache is full and whose eight requests wait.
    assert entropy[OVERLOADED] > 8.0 * others.max()


@pytest.mark.parametrize("own", [False, True])
def test_min_entropy_fills_every_other_engine_before_it_would_take_it(own: bool) -> None:
    entropy = np.array(fleet(own).table().entropy)
    assert entropy.argmax() == OVERLOADED
    full = entropy[OTHERS] + MAX_RUNNING * REQUEST_ENTROPY
    assert entropy[OVERLOADED] > full.max()


@pytest.mark.parametrize("own", [False, True])
def test_its_predicted_time_is_by_far_the_longest(own: bool) -> None:
    table = fleet(own).table()
    times_s = predicted_s(table)
    assert times_s[OVERLOADED] > 100.0 * times_s[OTHERS].max()
    # 2,826 prompts are read before: by what the gateways have open there, or by the engine's word.
    queue_s = 2826 * PROMPT_TOKENS * table.token_s[OVERLOADED]
    assert table.extra_s[OVERLOADED] == pytest.approx(0.0 if own else queue_s, rel=0.01)
    assert times_s[OVERLOADED] > 0.99 * queue_s


def test_without_its_queue_it_would_be_the_best_of_the_fleet() -> None:
    """So it is the queue that tells, and not what else is on the page."""
    told = samples()
    engine = replace(told[OVERLOADED].engine, waiting=told[OTHERS[0]].engine.waiting)
    told[OVERLOADED] = replace(told[OVERLOADED], engine=engine)
    assert np.argmin(serving(*told).table().entropy) == OVERLOADED
