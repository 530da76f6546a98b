"""Overload looks like overload: the queue and the first token tell, utilisation does not."""

from __future__ import annotations

import csv
import functools
import itertools
import json
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.models import model_named
from isocost.fake.sequence import Prompt, coarse_marks
from isocost.fake.shared_cards import SharedCards
from isocost.fake.telemetry import BUSY_UTILISATION, FakeTelemetry
from isocost.fake.traffic import Traffic
from tests.benchmark.capacity import capacity_per_s
from tests.unit.fake.node_client import settings

RUNS = Path(__file__).parents[2] / "data" / "burstgpt-vllm-replay" / "runs.csv"
HARDWARE = Hardware("H100", 1, model_named("llama-3.1-8b"))
DURATION_S = 120
#: Means of parts of a run.
PARTS = 4
Requests = list[tuple[Prompt, int]]


def requests(count: int, prompt_tokens: int, output_tokens: int) -> Requests:
    """Lengths spread around their means."""
    choose = random.Random(7)
    return [
        (
            Prompt(round(prompt_tokens * choose.uniform(0.2, 1.8))),
            round(output_tokens * choose.uniform(0.2, 1.8)),
        )
        for _ in range(count)
    ]


def start(max_num_seqs: int = 128) -> Engine:
    return Engine(HARDWARE.speed, HARDWARE.kv_blocks, max_num_seqs)


@dataclass(frozen=True)
class Second:
    """``first_token_s``: the median of those that came in this second."""

    running: int
    waiting: int
    kv_usage: float
    utilisation: float
    first_token_s: float


def run(engine: Engine, offered: Requests, rate_per_s: float, duration_s: int) -> list[Second]:
    """Poisson arrivals, looked at every second."""
    choose = random.Random(3)
    now_s = 0.0
    telemetry = FakeTelemetry(
        settings(hardware=HARDWARE), SharedCards([engine]), Traffic(0.0), lambda: now_s, time.time
    )
    arrival_s, left, seconds = 0.0, list(offered), []
    for second in range(1, duration_s + 1):
        happened = []
        while left and arrival_s < second:
            happened += engine.advance(arrival_s)
            prompt, output = left.pop(0)
            engine.submit(arrival_s, prompt, coarse_marks(output, 2))
            arrival_s += choose.expovariate(rate_per_s)
        now_s = float(second)
        happened += engine.advance(now_s)
        waits_s = [p.at_s - p.sequence.submitted_s for p in happened if p.tokens == 1]
        page = json.loads(telemetry.page())
        seconds.append(
            Second(
                engine.running,
                engine.waiting,
                engine.kv_usage,
                page["gpus"][0]["gpu_utilisation"],
                statistics.median(waits_s) if waits_s else 0.0,
            )
        )
    return seconds


def parts(values: list[float]) -> list[float]:
    size = len(values) // PARTS
    return [statistics.fmean(values[part * size : (part + 1) * size]) for part in range(PARTS)]


@functools.cache
def capacity() -> float:
    return capacity_per_s(start, requests(4000, 204, 62))


@functools.cache
def at(load: float) -> list[Second]:
    """A run at a share of the capacity."""
    return run(start(), requests(20_000, 204, 62), load * capacity(), DURATION_S)


def test_above_the_capacity_the_queue_and_the_first_token_grow_all_the_time() -> None:
    seconds = at(1.2)
    waiting = parts([float(second.waiting) for second in seconds])
    first_token_s = parts([second.first_token_s for second in seconds])
    for grows in (waiting, first_token_s):
        steps = [after - before for before, after in itertools.pairwise(grows)]
        assert min(steps) > 0.15 * grows[-1]
    # What comes beyond the capacity stays, and every first token waits for those before it.
    assert seconds[-1].waiting == pytest.approx(0.2 * capacity() * DURATION_S, rel=0.25)
    expected_s = seconds[-1].waiting / capacity()
    assert seconds[-1].first_token_s == pytest.approx(expected_s, rel=0.25)


def test_below_the_capacity_neither_grows() -> None:
    seconds = at(0.7)
    waiting = parts([float(second.waiting) for second in seconds])
    first_token_s = parts([second.first_token_s for second in seconds])
    assert max(waiting) < 10
    assert max(first_token_s) < 1.3 * min(first_token_s) < 0.1


def test_utilisation_stays_where_the_real_traces_have_it_and_does_not_tell_overload() -> None:
    under, over = (parts([s.utilisation for s in at(load)]) for load in (0.7, 1.2))
    assert all(0.30 <= part <= 0.42 for part in under + over)
    assert max(over) - min(under) < 0.02


def test_the_utilisation_is_the_mean_of_the_real_runs() -> None:
    with RUNS.open() as file:
        runs = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    means = [row["gpu_util_mean_pct"] / 100 for row in runs]
    assert statistics.fmean(means) == pytest.approx(BUSY_UTILISATION, abs=0.005)
    # There, too, more waiting requests never show as more utilisation.
    assert statistics.correlation([row["waiting_max"] for row in runs], means) < 0


def test_a_burst_has_the_shape_of_the_real_one() -> None:
    """500 requests in 20 s, 430 tokens in and about 780 out, as the last of the real runs."""
    with RUNS.open() as file:
        real = list(csv.DictReader(file))[-1]
    seconds = run(start(256), requests(500, 430, 780), 25, DURATION_S)
    running = [second.running for second in seconds]
    waiting = [second.waiting for second in seconds]
    assert max(running) == int(real["running_max"]) == 256
    assert 50 < max(waiting) < 2 * int(real["waiting_max"])
    assert max(second.kv_usage for second in seconds) == pytest.approx(
        float(real["kv_max_pct"]) / 100, abs=0.1
    )
    # The batch is full for long before the queue is empty, and ends after it.
    full = [second for second, count in enumerate(running) if count > 250]
    assert len(full) > 5
    assert waiting[full[-1] + 5] == 0 and seconds[-1].running == 0
