"""The demo as a user runs it: its figures meet the bars, Ctrl-C leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.conftest import StartIsocost
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until

START_BAR_S = 10.0
RUN_DEADLINE_S = 120.0
NODES = 8


def flags(report: Path) -> list[str]:
    """Ports of this test's own, and where the report goes."""
    named = {
        "--port": free_port(),
        "--admin-port": free_port(),
        "--control-plane-port": free_port(),
        "--http-port": free_port(),
    }
    base = free_port_run(NODES)
    ports = [part for flag, port in named.items() for part in (flag, str(port))]
    return [*ports, "--node-port-base", str(base), "--report", str(report)]


def free_port_run(count: int) -> int:
    """The first of ``count`` free ports in a row."""
    ports = [free_port()]
    while len(ports) < count:
        port = free_port()
        ports = [*ports, port] if port == ports[-1] + 1 else [port]
    return ports[0]


async def run_demo(start_isocost: StartIsocost, report: Path) -> tuple[dict[str, Any], float]:
    """The report of one whole demo, and the seconds until it was ready."""
    started_s = time.monotonic()
    demo = start_isocost("demo", *flags(report))
    await wait_until(lambda: "nodes ready" in demo.stdout.read_text(), "ready", START_BAR_S * 2)
    ready_s = time.monotonic() - started_s
    await wait_until(lambda: not demo.running, "the end of the demo", RUN_DEADLINE_S)
    assert demo.stop() == 0, demo.stdout.read_text() + demo.messages()
    return json.loads(report.read_text()), ready_s


async def test_two_demos_meet_the_bars_of_push_and_pick(
    start_isocost: StartIsocost, tmp_path: Path
) -> None:
    """Twice 30 s of the demo's load."""
    for run in range(2):
        report, ready_s = await run_demo(start_isocost, tmp_path / f"report-{run}.json")
        push = report["push"]
        print("ready", round(ready_s, 1), "s; push", push, "busy", report["machine_busy"])
        assert ready_s < START_BAR_S
        assert report["schema"] == "isocost.report/1"
        assert report["requests"]["failed"] == 0
        assert report["requests"]["ok"] == report["requests"]["sent"] == 3118
        assert abs(push["interval_ms"]["p50"] - 200) <= 5
        assert push["interval_ms"]["p99"] <= 220
        assert push["age_at_pick_ms"]["p99"] <= 250
        assert len(report["nodes"]) == NODES
        assert all(node["requests"] > 0 for node in report["nodes"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_demo_stops_everything_it_started(
    start_isocost: StartIsocost, tmp_path: Path, number: signal.Signals
) -> None:
    demo = start_isocost("demo", *flags(tmp_path / "report.json"))
    await wait_until(lambda: "nodes ready" in demo.stdout.read_text(), "ready", START_BAR_S * 2)
    children = psutil.Process(demo.pid).children(recursive=True)
    assert len(children) >= NODES + 4
    os.kill(demo.pid, number)
    await wait_until(lambda: not demo.running, "the demo ends")
    await wait_until(lambda: not any(map(alive, children)), "its children end")
    assert demo.stop() == 130


async def test_a_port_in_use_is_named_with_the_flag_that_changes_it(
    start_isocost: StartIsocost, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        demo = start_isocost("demo", *flags(tmp_path / "report.json"), "--port", str(port))
        await wait_until(lambda: not demo.running, "the demo ends")
    assert demo.stop() == 3
    assert f"{port}" in demo.messages()
    assert "--port" in demo.messages()


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
