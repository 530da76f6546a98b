"""Figures of a saturated machine: the run says that they mean little, and who was busy."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.integration.conftest import StartIsocost
from tests.integration.harness.bench_runs import KnownServer, report_of, write_trace
from tests.integration.harness.process import Process


async def test_a_run_on_a_busy_machine_is_invalid_and_names_the_busy_processes(
    start_isocost: StartIsocost, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "trace.csv", 20, 3)
    server = await KnownServer(tmp_path, 60, 0.05).ready()
    command = [sys.executable, "-c", "while True: pass"]
    burning = [
        Process(f"burn-{number}", command, tmp_path) for number in range(os.cpu_count() or 1)
    ]
    try:
        report = await report_of(start_isocost, tmp_path, server.url, trace)
    finally:
        for process in burning:
            process.kill()
        server.stop()
    assert report["machine_busy"] > 0.85
    assert report["valid"] is False
    listed = {process["pid"]: process for process in report["processes"]}
    for process in burning:
        assert listed[process.pid]["cpu_fraction"] > 0.1
        assert listed[process.pid]["name"].endswith(" -c")
    assert len(report["processes"]) <= 20
