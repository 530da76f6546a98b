"""`isocost chaos` as a process: its lines, its exit codes, and that a stop takes faults back."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from isocost.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, main
from tests.unit.bench.listening import unused_url
from tests.unit.fake.node_client import running

DEADLINE_S = 30.0
ENDLESS = "{node: n1, fault: hang}"
SHORT = "{node: n1, fault: slow, factor: 3, end_s: 0.1}"


def written(folder: Path, url: str, *faults: str) -> str:
    path = folder / "s.yaml"
    path.write_text(f"nodes: {{n1: '{url}'}}\nfaults: [{', '.join(faults)}]\n")
    return str(path)


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "isocost.cli.main", "chaos", *arguments), stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def outcome(process: Process) -> tuple[int | None, str, str]:
    """Exit code and what is left of both outputs."""
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def test_it_tells_every_begin_and_end_and_is_done(tmp_path: Path) -> None:
    async with running() as node, started(written(tmp_path, node.url, SHORT)) as process:
        code, output, errors = await outcome(process)
    assert (code, errors) == (0, "")
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    begins, ends = output.splitlines()
    assert re.fullmatch(rf"{time} n1: slow begins factor=3", begins)
    assert re.fullmatch(rf"{time} n1: slow ends factor=3", ends)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, EXIT_INTERRUPTED)]
)
async def test_a_stop_takes_its_faults_back(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    later = "{node: n1, fault: delay, ms: 1, start_s: 3600}"
    async with running() as node:
        path = written(tmp_path, node.url, ENDLESS, later)
        async with started(path, "--json") as process:
            assert process.stdout is not None
            begins = json.loads(await process.stdout.readline())
            assert {key: begins[key] for key in ("node", "fault", "event", "parameters")} == {
                "node": "n1",
                "fault": "hang",
                "event": "begins",
                "parameters": {},
            }
            assert [fault["fault"] for fault in await node.faults()] == ["hang", "delay"]
            process.send_signal(number)
            found, output, errors = await outcome(process)
        assert (found, errors) == (code, "")
        assert json.loads(output)["event"] == "ends"
        assert await node.faults() == []


async def test_a_stop_while_it_waits_for_a_node_is_taken(tmp_path: Path) -> None:
    url = unused_url()
    async with started(written(tmp_path, url, SHORT), "--log-format", "json") as process:
        assert process.stderr is not None
        waiting = json.loads(await process.stderr.readline())
        assert waiting["message"].startswith(f"waiting: node {url} does not answer")
        process.send_signal(signal.SIGTERM)
        assert await outcome(process) == (0, "", "")


def test_a_stop_before_all_is_read_is_a_clean_one() -> None:
    code = """
import os, signal, sys
from isocost.bench import scenario
from isocost.cli.main import main
scenario.read_scenario = lambda _: os.kill(os.getpid(), signal.SIGTERM)
sys.exit(main(["chaos", "a.yaml"]))
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=DEADLINE_S, check=False)
    assert done.returncode == 0


async def test_a_fault_that_its_node_does_not_take_is_told(tmp_path: Path) -> None:
    fault = "{node: n1, fault: refuse}"
    async with running() as node, started(written(tmp_path, node.url, fault)) as process:
        code, output, errors = await outcome(process)
    assert (code, output) == (EXIT_FAILED, "")
    assert errors.startswith(f"isocost: node {node.url} does not take the order: HTTP 400 ")
    assert "for_s" in errors and "Traceback" not in errors


@pytest.fixture
def own_sigterm() -> Iterator[None]:
    """What the command does with SIGTERM ends with the test."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("own_sigterm")
@pytest.mark.parametrize(
    ("fault", "flags", "named"),
    [
        ("{node: n2, fault: hang}", (), "faults.0.node: 'n2' is not allowed"),
        ("{node: n1, fault: hang, end_s: 0}", (), "faults.0.end_s: 0.0 is not allowed"),
        ("{node: n1}", (), "faults.0.fault: it is required"),
        (ENDLESS, ("--repeat",), "faults.0.end_s: it is required with --repeat"),
    ],
)
def test_a_bad_file_is_wrong_usage_and_the_field_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fault: str,
    flags: tuple[str, ...],
    named: str,
) -> None:
    assert main(["chaos", written(tmp_path, unused_url(), fault), *flags]) == EXIT_USAGE
    assert f"s.yaml: {named}" in capsys.readouterr().err
