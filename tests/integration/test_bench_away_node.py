"""A node that its fault keeps away past a turn's last answer: the comparison waits and goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from isocost.fake import server
from isocost.fake.hardware import Hardware
from isocost.fake.models import model_named
from isocost.fake.settings import FakeNodeSettings
from tests.integration.conftest import StartIsocost
from tests.integration.harness.bench_runs import ended, write_trace

RATE_PER_S, DURATION_S = 20, 2
#: Of the fault, on the trace's time: the last request leaves just before 2 s.
START_S, END_S = 0.5, 4.0


@pytest.mark.parametrize("fault", ["refuse", "oom", "restart"])
async def test_every_target_gets_its_turn_and_nothing_is_lost(
    start_isocost: StartIsocost, tmp_path: Path, fault: str
) -> None:
    hardware = Hardware("H100", 1, model_named("llama-3.1-8b"))
    node = await server.start(FakeNodeSettings("n1", "127.0.0.1", 0, hardware, "m"))
    url = f"http://127.0.0.1:{node.port}"
    trace = write_trace(tmp_path / "trace.csv", RATE_PER_S, DURATION_S)
    scenario, path = tmp_path / "scenario.yaml", tmp_path / "report.json"
    scenario.write_text(
        f"nodes: {{n1: '{url}'}}\n"
        f"faults: [{{node: n1, fault: {fault}, start_s: {START_S}, end_s: {END_S}}}]\n"
    )
    try:
        bench = start_isocost(
            *("bench", "--target", f"one={url}", "--target", f"two={url}", "--model", "m"),
            *("--trace", str(trace), "--rounds", "1", "--scenario", str(scenario)),
            *("--report", str(path)),
        )
        assert await ended(bench) == 0, bench.messages()
    finally:
        await asyncio.wait_for(node.stop(), 30)
    comparison = json.loads(path.read_text())
    assert comparison["interrupted"] is False
    assert "not taken back" not in bench.stdout.read_text()
    for report in comparison["targets"].values():
        assert report["requests"]["sent"] == RATE_PER_S * DURATION_S
        # The turn ended with its answers, long before the fault.
        assert report["series"]["t_s"][-1] < END_S
        assert report["failures"]["connect"] > 0
        assert report["phases"][0]["requests"]["ok"] > 0
