"""One control plane, 128 nodes and a thousand ADS clients: how regularly do the tables come?

    PYTHONPATH=.:control_plane python -m tests.benchmark.ads_clients

`make bench` runs it. The control plane is a real one in a process of its own, as are the clients,
which cost next to nothing (raw_ads.py); so they need a core beside the control plane's. The figures
go to build/bench.json; the exit code is 1 if the bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import yaml

from tests.benchmark.bench_json import Entry, at_most, merge
from tests.benchmark.filter_cost import show
from tests.benchmark.raw_ads import READY
from tests.integration.harness.announcer import Announcer
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until
from tests.unit.fleet_builder import node

CLIENTS, NODES = 1_000, 128
RUNS, WARM_UP_S, RUN_S = 3, 3.0, 15.0
#: A table each 200 ms, and half of that again for the thousandth client.
INTERVAL_MS = 300.0
#: As many lines as a line of JSON with every interval of a run is long.
_LINE_BYTES = 1 << 26
_START_S = 60.0


@dataclass(frozen=True, slots=True)
class Run:
    """``control_cpu`` and ``clients_cpu`` in cores; ``fewest`` tables that a client had."""

    p50_ms: float
    p99_ms: float
    most_ms: float
    fewest: int
    control_cpu: float
    clients_cpu: float
    rss_mb: float


@asynccontextmanager
async def control_plane(folder: Path, port: int) -> AsyncIterator[psutil.Process]:
    """A control plane with its fleet."""
    config = folder / f"control-plane-{port}.yaml"
    settings = {"listen": f"127.0.0.1:{port}", "http": f"127.0.0.1:{free_port()}"}
    config.write_text(yaml.safe_dump(settings))
    log = (folder / f"control-plane-{port}.log").open("w")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "isocost.cli.main", "control-plane", "--config", str(config)),
        stdout=log,
        stderr=log,
    )
    fleet = [node(f"n{number}", address=f"192.0.2.{number}:8000") for number in range(NODES)]
    try:
        await wait_until(lambda: _listens(port), "the control plane listens", _START_S)
        async with Announcer(port, fleet):
            yield psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()
        log.close()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def measure(folder: Path, clients: int, seconds: float) -> Run:
    port = free_port()
    async with control_plane(folder, port) as process:
        command = ["-m", "tests.benchmark.raw_ads", str(port), str(clients)]
        raw = await asyncio.create_subprocess_exec(
            *(sys.executable, *command, str(WARM_UP_S), str(seconds)),
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        assert raw.stdout is not None
        if (line := (await raw.stdout.readline()).decode().strip()) != READY:
            raise RuntimeError(f"the clients did not start: {line}")
        await asyncio.sleep(WARM_UP_S)
        before = process.cpu_times()
        line = (await raw.stdout.readline()).decode()
        after = process.cpu_times()
        rss_mb = process.memory_info().rss / 1e6
        if await raw.wait() != 0:
            raise RuntimeError("the clients failed")
    told = json.loads(line)
    intervals = sorted(told["intervals_ms"])
    cpu_s = after.user + after.system - before.user - before.system
    return Run(
        p50_ms=_rank(intervals, 0.5),
        p99_ms=_rank(intervals, 0.99),
        most_ms=intervals[-1],
        fewest=told["fewest"],
        control_cpu=round(cpu_s / seconds, 2),
        clients_cpu=round(told["cpu_s"] / seconds, 2),
        rss_mb=round(rss_mb, 1),
    )


def _rank(ordered: Sequence[float], part: float) -> float:
    """The nearest-rank percentile."""
    return ordered[math.ceil(len(ordered) * part) - 1]


def judge(clients: int, runs: Sequence[Run]) -> list[Entry]:
    """Medians of the runs."""
    intervals = tuple(run.p99_ms for run in runs)
    best = min(runs, key=lambda run: run.p99_ms)
    note = (
        f"{clients:,} clients, {NODES} nodes, {len(runs)} runs; in the best one the median is "
        f"{best.p50_ms:g} ms, the longest {best.most_ms:g} ms, every client had {best.fewest} "
        f"tables; control plane {best.control_cpu:g} of a core and {best.rss_mb:g} MB, all "
        f"clients {best.clients_cpu:g} of a core"
    )
    return [
        at_most(
            f"push.interval_p99_ms.{clients}clients",
            median(intervals),
            "ms",
            INTERVAL_MS,
            intervals,
            note,
        )
    ]


async def run_all(options: argparse.Namespace) -> list[Run]:
    with tempfile.TemporaryDirectory() as folder:
        return [
            await measure(Path(folder), options.clients, options.seconds)
            for _ in range(options.runs)
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmark.ads_clients", description=__doc__
    )
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seconds", type=float, default=RUN_S, help="how long a run measures")
    options = parser.parse_args(arguments)
    entries = judge(options.clients, asyncio.run(run_all(options)))
    merge(entries)
    show(entries)
    return 0 if all(entry.ok for entry in entries) else 1


if __name__ == "__main__":
    sys.exit(main())
