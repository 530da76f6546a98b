"""The demo's ways out: nothing is left running, and logs are left only when they are needed."""

import argparse
import asyncio
import io
import os
import socket
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from isocost.cli import demo as command
from isocost.demo import launch
from isocost.demo.options import DemoOptions
from isocost.demo.processes import Processes
from isocost.demo.run import run_demo
from isocost.errors import StartError


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: DemoOptions) -> DemoOptions:
    """Options that need neither Envoy nor a filter, and a directory that takes the run's files."""
    wasm = tmp_path / "isocost.wasm"
    wasm.write_bytes(b"")
    monkeypatch.setattr("isocost.demo.run.WASM", wasm)
    runs = tmp_path / "runs"
    runs.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(runs))
    return replace(options, envoy=sys.executable)


def runs(options: DemoOptions) -> list[Path]:
    return list((options.report.parent / "runs").iterdir())


class OnlyPart:
    """Makes the demo start this one process and nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *command: str) -> None:
        self._command = command
        self.started = asyncio.Event()
        self.pid: int | None = None
        monkeypatch.setattr(launch, "start_all", self._start_all)

    def _start_all(self, _: launch.Stage, processes: Processes) -> int:
        self.pid = processes.start("part", self._command)
        self.started.set()
        return self.pid


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_an_interrupted_demo_stops_what_it_started_and_leaves_nothing(
    stage: DemoOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = OnlyPart(monkeypatch, "sleep", "1000")
    task = asyncio.create_task(run_demo(stage, Console(file=io.StringIO())))
    await asyncio.wait_for(part.started.wait(), 10)
    assert part.pid is not None and exists(part.pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not exists(part.pid)
    assert runs(stage) == []


async def test_a_part_that_dies_ends_the_demo_with_its_log_and_keeps_the_logs(
    stage: DemoOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    OnlyPart(monkeypatch, "sh", "-c", "echo the disk is on fire; exit 7")
    shown = io.StringIO()
    with pytest.raises(StartError, match=r"part ended with status 7(?s:.*)the disk is on fire"):
        await run_demo(stage, Console(file=shown, width=300))
    (kept,) = runs(stage)
    assert f"logs: {kept}" in shown.getvalue()
    assert (kept / "part.log").read_text() == "the disk is on fire\n"


async def test_a_missing_filter_names_the_command_that_builds_it(
    stage: DemoOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("isocost.demo.run.WASM", tmp_path / "absent.wasm")
    with pytest.raises(StartError, match=r"absent\.wasm is missing: .*make filter"):
        await run_demo(stage, Console(file=io.StringIO()))


async def test_a_report_without_a_directory_is_refused_at_the_start(stage: DemoOptions) -> None:
    lost = replace(stage, report=stage.report.parent / "missing" / "report.json")
    with pytest.raises(StartError, match=r"--report .*missing.*no such directory"):
        await run_demo(lost, Console(file=io.StringIO()))
    assert runs(stage) == []


def arguments(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(argv)


@pytest.mark.parametrize(
    "flag", ["--port", "--admin-port", "--control-plane-port", "--http-port", "--node-port-base"]
)
def test_the_command_names_a_taken_port_and_its_flag_before_it_starts_anything(
    flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = OnlyPart(monkeypatch, "sleep", "1000")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        ports = {
            "--port": 19410,
            "--admin-port": 19411,
            "--control-plane-port": 19412,
            "--http-port": 19413,
            "--node-port-base": 19420,
            flag: port,
        }
        argv = [f"{name}={number}" for name, number in ports.items()]
        with pytest.raises(StartError, match=rf"port {port} of .* is in use: .* {flag}"):
            command.run(arguments(*argv))
    assert part.pid is None


@pytest.mark.parametrize("duration", ["0", "-3", "soon", "nan", "86400"])
def test_a_bad_duration_is_wrong_usage(duration: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        arguments(f"--duration={duration}")
    assert caught.value.code == 2
    assert "from 1 to 3600" in capsys.readouterr().err


async def test_a_report_that_is_a_directory_is_refused_at_the_start(stage: DemoOptions) -> None:
    with pytest.raises(StartError, match=r"--report .*cannot be written"):
        await run_demo(replace(stage, report=stage.report.parent), Console(file=io.StringIO()))
