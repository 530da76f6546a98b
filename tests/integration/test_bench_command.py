"""`isocost bench` as a process: exit codes, what goes where, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.conftest import StartIsocost
from tests.integration.harness.bench_runs import KnownServer, ended, write_trace
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[KnownServer]:
    server = await KnownServer(tmp_path, 100, 0.05).ready()
    yield server
    server.stop()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.csv", 50, 2)


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--fail-if", "requests.failed>0"), 0),
        (("--fail-if", "requests.ok==100"), 1),
        (("--fail-if", "imbalance>1.5", "--fail-if", "requests.retried>0"), 1),
        (("--fail-if", "requests.retried"), 2),
        (("--rounds", "101"), 2),
        (("--report", "/absent/report.json"), 3),
    ],
)
async def test_the_exit_code_says_what_came_of_the_run(
    start_isocost: StartIsocost,
    server: KnownServer,
    trace: Path,
    flags: tuple[str, ...],
    code: int,
) -> None:
    bench = start_isocost(
        "bench", "--url", server.url, "--model", "m", "--trace", str(trace), *flags
    )
    assert await ended(bench) == code, bench.messages()
    assert len(await server.recorded()) == (100 if code < 2 else 0)


async def test_nobody_listens_there_is_no_load_and_code_3(
    start_isocost: StartIsocost, trace: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    bench = start_isocost("bench", "--url", url, "--model", "m", "--trace", str(trace))
    assert await ended(bench) == 3
    assert f"isocost: {url} accepts no connection" in bench.messages()


async def test_with_json_standard_output_is_the_report_alone(
    start_isocost: StartIsocost, server: KnownServer, trace: Path
) -> None:
    bench = start_isocost(
        "bench", "--url", server.url, "--model", "m", "--trace", str(trace), "--json"
    )
    assert await ended(bench) == 0, bench.messages()
    report = json.loads(bench.stdout.read_text())
    assert report["requests"]["ok"] == 100
    assert "first token" in bench.messages()


async def test_ctrl_c_reports_what_was_measured_and_exits_with_130(
    start_isocost: StartIsocost, server: KnownServer, tmp_path: Path
) -> None:
    path, page = tmp_path / "report.json", tmp_path / "report.html"
    bench = start_isocost(
        *("bench", "--url", server.url, "--model", "m", "--rate", "50", "--rate-scale", "1"),
        *("--report", str(path), "--html", str(page)),
    )

    async def answered() -> bool:
        return len(await server.recorded()) > 30

    await wait_until(answered, "some requests are answered", 60.0)
    os.kill(bench.pid, signal.SIGINT)
    assert await ended(bench) == 130, bench.messages()
    report = json.loads(path.read_text())
    assert report["interrupted"] is True
    assert report["requests"]["ok"] > 30
    assert report["requests"]["failed"] == sum(report["failures"].values())
    assert set(report["failures"]) <= {"unanswered"}
    assert page.read_text().startswith("<!DOCTYPE html>")
