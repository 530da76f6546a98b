"""Two targets that are one server: the comparison must find no difference."""

from __future__ import annotations

import json
from pathlib import Path

from isocost.bench.comparison import METRICS
from tests.integration.conftest import StartIsocost
from tests.integration.harness.bench_runs import KnownServer, ended, write_trace

RATE_PER_S, DURATION_S, ROUNDS = 100, 8, 4
#: Each interval misses 1 in 5 % of runs: that one metric's does so in all of 3 is 1 in 8,000.
TRIES = 3


async def test_the_interval_of_each_ratio_contains_1(
    start_isocost: StartIsocost, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "trace.csv", RATE_PER_S, DURATION_S)
    path = tmp_path / "report.json"
    server = await KnownServer(tmp_path, RATE_PER_S * DURATION_S * 2, 0.1).ready()
    missing = set(METRICS)
    told = []
    try:
        for attempt in range(TRIES):
            bench = start_isocost(
                *("bench", "--target", f"one={server.url}", "--target", f"two={server.url}/v1"),
                *("--model", "m", "--trace", str(trace), "--rounds", str(ROUNDS)),
                *("--seed", str(attempt), "--report", str(path)),
            )
            assert await ended(bench) == 0, bench.messages()
            comparison = json.loads(path.read_text())
            assert comparison["schema"] == "isocost.comparison/1"
            for name in ("one", "two"):
                requests = comparison["targets"][name]["requests"]
                assert requests["ok"] == requests["sent"] == RATE_PER_S * DURATION_S
            ratios = comparison["ratios"]["two"]
            told.append(ratios)
            missing -= {
                metric
                for metric, found in ratios.items()
                if found["low"] <= 1.0 <= found["high"] and found["high"] / found["low"] < 4
            }
            if not missing:
                break
    finally:
        server.stop()
    print(told)
    assert not missing, told
