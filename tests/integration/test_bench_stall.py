"""A server that stops for two seconds: the report must show it, when it was and how long."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.conftest import StartIsocost
from tests.integration.harness.bench_runs import KnownServer, ended, write_trace
from tests.integration.harness.wait import wait_until

RATE_PER_S, DURATION_S, STALL_S = 100, 9, 2.0
#: Delays of the server when it does not stall: p99 50 ms. What is slower was stalled.
SCALE = 0.05


async def test_a_stall_of_two_seconds_is_in_the_percentiles_and_in_the_series_at_its_time(
    start_isocost: StartIsocost, tmp_path: Path
) -> None:
    server = await KnownServer(tmp_path, RATE_PER_S * DURATION_S, SCALE).ready()
    path = tmp_path / "report.json"
    trace = write_trace(tmp_path / "trace.csv", RATE_PER_S, DURATION_S)
    try:
        bench = start_isocost(
            *("bench", "--url", server.url, "--model", "m", "--trace", str(trace)),
            *("--report", str(path)),
        )

        async def answered() -> bool:
            return len(await server.recorded()) > 3 * RATE_PER_S

        await wait_until(answered, "three seconds of requests are answered", 60.0)
        stalled_at_s = await server.stall(STALL_S)
        assert await ended(bench) == 0, bench.messages()
    finally:
        server.stop()
    report = json.loads(path.read_text())
    assert report["requests"]["ok"] == RATE_PER_S * DURATION_S
    series = report["series"]
    # The load went on: a generator that waits for answers would have sent nothing meanwhile.
    assert series["sent"][:DURATION_S] == [RATE_PER_S] * DURATION_S
    # Of 900 requests the 200 of the stall waited 0 to 2 s each.
    assert report["ttft_ms"]["p99"] >= 1700
    assert report["ttft_ms"]["p50"] < report["ttft_ms"]["p99"] / 2
    # A request that is scheduled when it begins waits for all of it.
    begins = int(stalled_at_s)
    p99_ms = series["ttft_p99_ms"]
    slowest = max(range(len(p99_ms)), key=lambda step: p99_ms[step] or 0.0)
    assert slowest in {begins - 1, begins, begins + 1}
    assert p99_ms[slowest] >= 1700
