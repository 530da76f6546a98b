"""A real engine's overload shows in the entropy, while utilisation and KV cache say that it is half
idle.

Each row of timeline.csv is one moment of a run, scored as a node of its own. A row is *queued*
where requests wait and one of the open ones has waited for a second; *calm* where nobody waits and
none of the open ones had to for that long. Two kinds are neither. *Moments*: requests wait, for one
of the next steps, as in every busy engine (76 of the 1,234 rows in which requests wait). *After a
queue*: nobody waits any more, but the batch is full of requests that did, and the entropy counts
their ages: such a row may score above queued ones.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from isocost.config import EntropySettings
from isocost.model import Model, measured
from isocost.score.columns import Floats
from isocost.score.entropy import EntropyTerms, entropy_terms, node_capacity
from tests.unit.fleet_builder import GB, node, sample, telemetry_of

TIMELINE = Path(__file__).parents[2] / "data" / "burstgpt-vllm-replay" / "timeline.csv"
#: Llama-3.2-1B: keys and values of 16 layers with 8 heads of 64 at 16 bits.
MODEL = Model("llama-3.2-1b", kv_bytes_per_token=2 * 16 * 8 * 64 * 2)
#: The KV usage goes in steps of one block of 16 tokens: 36,282 of them are the pool, 19 GB.
POOL_TOKENS = 36_282 * 16
CARD_GB = 24 * 2**30 / GB
SETTINGS = EntropySettings()

#: By how much faster than in the trace requests come. At 100 there is no queue, only moments.
SCALES = (100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1500, 2000)
QUEUED = SCALES[1:]

#: Of the 1,234 rows in which requests wait, those (by scale, at s) that do not score above every
#: calm row of their run by what the agent tells: one or two requests, for two thirds of a second.
NOT_SHOWN = {
    100: [368.2, 380.9],
    200: [170.8, 176.4, 176.9, 184.3],
    300: [116.8],
    600: [53.1],
    700: [43.5],
    1500: [7.1],
}


@dataclass(frozen=True)
class Run:
    """The rows of a run: what was told, and their entropy. Each [rows]."""

    told: dict[str, Floats]
    terms: EntropyTerms

    @property
    def agents_part(self) -> Floats:
        """The entropy without the ages, which only the gateways know."""
        return replace(self.terms, age=np.zeros_like(self.terms.age)).total

    @property
    def waiting(self) -> NDArray[np.bool_]:
        return self.told["waiting"] > 0

    @property
    def queued(self) -> NDArray[np.bool_]:
        return self.waiting & (self.told["longest_wait_s"] >= 1.0)

    @property
    def calm(self) -> NDArray[np.bool_]:
        return ~self.waiting & (self.told["longest_wait_s"] < 1.0)


@functools.cache
def run(scale: int) -> Run:
    with TIMELINE.open() as file:
        rows = [row for row in csv.DictReader(file) if int(row["scale"]) == scale]
    told = {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}
    nodes = [node(f"n{index}", gpu_kind="24 GiB", models=(MODEL,)) for index in range(len(rows))]
    samples = []
    for index, of in enumerate(nodes):
        found = sample(
            of,
            total_gb=CARD_GB,
            kv_usage=told["kv_pct"][index] / 100.0,
            running=told["running"][index],
            waiting=told["waiting"][index],
        )
        engine = replace(found.engine, kv_pool_tokens=measured(POOL_TOKENS))
        samples.append(replace(found, engine=engine))
    telemetry = telemetry_of(nodes, samples)
    capacity = node_capacity(nodes, SETTINGS)
    return Run(told, entropy_terms(telemetry, told["open_age_s_sum"], capacity, SETTINGS))


@pytest.mark.parametrize("scale", QUEUED)
def test_every_queued_row_scores_above_every_calm_row_of_its_run(scale: int) -> None:
    of = run(scale)
    assert of.queued.sum() >= 10 and of.calm.sum() >= 25
    assert of.terms.total[of.queued].min() > 1.1 * of.terms.total[of.calm].max()


@pytest.mark.parametrize("scale", SCALES)
def test_one_request_or_two_that_wait_are_the_most_that_does_not_show(scale: int) -> None:
    """By what the agent alone tells, without the ages, which lag behind a queue that begins."""
    of = run(scale)
    unseen = of.waiting & (of.agents_part <= of.agents_part[of.calm].max())
    assert of.told["t_s"][unseen].tolist() == NOT_SHOWN.get(scale, [])
    assert of.told["waiting"][unseen].max(initial=0) <= 2
    assert of.told["longest_wait_s"][unseen].max(initial=0.0) <= 0.6


@pytest.mark.parametrize("scale", QUEUED)
def test_utilisation_and_kv_cache_do_not_tell_a_queue(scale: int) -> None:
    of = run(scale)
    utilisation, kv = of.told["gpu_util_pct"], of.told["kv_pct"]
    busy = of.calm & (of.told["running"] > 0)
    # By both a queued engine has most of itself left, ...
    assert utilisation[of.queued].mean() < 35.0
    assert kv[of.queued].max() < 48.0
    # ... its GPU seems less busy than a calm one's, ...
    assert utilisation[of.queued].mean() < utilisation[busy].mean() - 10.0
    # ... and by the two together, each as high as its highest, nearly no queued row is above all
    # calm ones; by the entropy all of them are.
    by_both = (utilisation + kv) / 2.0
    above = by_both[of.queued] > by_both[of.calm].max()
    assert above.mean() < 0.2
