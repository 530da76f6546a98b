"""The quality benchmark's figures and orders, without a fleet."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from isocost.bench.scenario import Scenario
from tests.benchmark.quality import ratio_entry, slow_scenario
from tests.benchmark.quality_fleet import CONV, NODES


def report(p99_ms: float, mean_s: float) -> dict[str, Any]:
    return {
        "ttft_ms": {"p99": p99_ms},
        "e2e_ms": {"mean": 1000 * mean_s},
        "requests": {"failed": 1},
        "machine_busy": p99_ms / 1000,
    }


def test_the_figure_is_the_median_of_the_runs() -> None:
    pairs = [(report(ours, 4), report(other, 5)) for ours, other in ((1, 2), (3, 4), (600, 700))]
    entry = ratio_entry("quality.x", pairs, 0.8)
    assert (entry.value, entry.runs, entry.ok) == (0.75, (0.5, 0.75, 0.857), True)
    assert "600 / 700 ms (mean answers 4.00 / 5.00 s); failed 3, machine 70% busy" in entry.note


@pytest.mark.parametrize("factor", [1, 3])
def test_the_last_phase_is_the_one_that_counts(factor: int) -> None:
    faults = Scenario.model_validate(slow_scenario(factor)).ordered()
    assert [fault.start_s for fault in faults] == [15.0, 20.0]
    assert {fault.parameters["factor"] for fault in faults} == {float(factor)}


def test_every_rack_has_the_same_nodes() -> None:
    assert set(Counter((node.rack, node.gpu_kind) for node in NODES).values()) == {2}
    assert len({node.port for node in NODES}) == len({node.name for node in NODES}) == 16


def test_the_load_is_a_share_of_the_capacity() -> None:
    assert CONV.rate_per_s(0.5) == pytest.approx(CONV.rate_per_s(1.0) / 2)
    assert 100 < CONV.rate_per_s(0.78) < 150
