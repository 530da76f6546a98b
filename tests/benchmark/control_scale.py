"""What a control plane of a large fleet costs, against its bars: CPU, memory, punctual pushes.

    PYTHONPATH=.:control_plane python -m tests.benchmark.control_scale

`make bench` runs it. A real control plane in a process of its own; beside it one process plays the
agents, of eight nodes each, which report five times a second, and one the four Envoys with two VMs
each, which take every table and report what they saw: requests open on every node, and news of
500 requests a second for 1,024 nodes. The figures go to build/bench.json; the exit code is 1 if a
bar is missed.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from tests.benchmark.bench_json import Entry, at_most, merge
from tests.benchmark.filter_cost import cpu_s, show
from tests.benchmark.scale_load import ENVOYS
from tests.benchmark.scale_traffic import INTERVAL_S, NODES_PER_AGENT, VMS
from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process, isocost_command

SIZES = {"1024": 1024, "10240": 10_240}
#: The figures' names.
_KEY = {"1024": "1024x4", "10240": "10240"}
RUNS, RUN_S = 3, 20.0
#: The first roster, its tables and the first of everything are not what a fleet costs.
WARM_UP_S = 10.0
READY_S = 120.0
CPU_FRACTION = {"1024": 0.25, "10240": 1.0}
RSS_MB = {"1024": 200.0}
INTERVAL_P99_MS = 220.0
#: A load that sends less than this part of what it should is another load.
_DELIVERED = 0.98


@dataclass(frozen=True, slots=True)
class Run:
    """``cpu`` is of a core; ``delivered`` is the part of the reports that came, of those that are
    due; ``machine`` is how busy all of it was, of 1.
    """

    cpu: float
    rss_mb: float
    interval_p99_ms: float
    tables: int
    delivered: float
    machine: float


def measure(nodes: int, runs: int, run_s: float) -> list[Run]:
    """The runs follow each other in the life of one control plane."""
    with tempfile.TemporaryDirectory() as name:
        port = free_port()
        control_plane = Process(
            "control-plane",
            isocost_command(
                *("control-plane", "--listen", f"127.0.0.1:{port}"),
                *("--http", f"127.0.0.1:{free_port()}"),
            ),
            Path(name),
        )
        try:
            _await_listening(control_plane, port)
            with _load("agents", port, nodes) as agents, _load("envoys", port, nodes) as envoys:
                time.sleep(WARM_UP_S)
                return [_run(control_plane, agents, envoys, nodes, run_s) for _ in range(runs)]
        finally:
            control_plane.stop()


def judge(size: str, runs: Sequence[Run]) -> list[Entry]:
    """Medians of the runs. No bar is kept by a control plane that did not take its load."""
    nodes, taken = SIZES[size], min(run.delivered for run in runs)
    setup = f"{nodes:,} nodes, {ENVOYS} Envoys with {VMS} VMs"
    machine = f"machine {max(run.machine for run in runs):.0%} busy"
    if taken < _DELIVERED:
        machine += f"; only {taken * 100:.0f} % of the reports that were due were sent"
    cpu = tuple(round(run.cpu, 4) for run in runs)
    rss_mb = tuple(round(run.rss_mb, 1) for run in runs)
    interval_ms = tuple(round(run.interval_p99_ms, 1) for run in runs)
    memory = f"control.rss_mb.{_KEY[size]}", median(rss_mb), "MB"
    entries = [
        at_most(
            f"control.cpu_fraction.{_KEY[size]}",
            median(cpu),
            "",
            CPU_FRACTION[size],
            cpu,
            f"of a core; {setup}; {machine}",
        ),
        at_most(*memory, RSS_MB[size], rss_mb, setup)
        if size in RSS_MB
        else Entry(*memory, "none", True, rss_mb, setup),
        at_most(
            f"push.interval_p99_ms.{size}",
            median(interval_ms),
            "ms",
            INTERVAL_P99_MS,
            interval_ms,
            f"between tables as the Envoys receive them, {runs[-1].tables} a run; {machine}",
        ),
    ]
    return [
        replace(entry, ok=entry.ok and (taken >= _DELIVERED or entry.bar == "none"))
        for entry in entries
    ]


def _run(control_plane: Process, agents: Load, envoys: Load, nodes: int, run_s: float) -> Run:
    agents.ask()
    envoys.ask()
    psutil.cpu_percent()
    began_s, before_s = time.monotonic(), cpu_s(control_plane.pid)
    time.sleep(run_s)
    used_s, took_s = cpu_s(control_plane.pid) - before_s, time.monotonic() - began_s
    machine = psutil.cpu_percent() / 100
    reports, seen = agents.ask(), envoys.ask()
    control_plane.require_running()
    due = took_s / INTERVAL_S
    return Run(
        cpu=used_s / took_s,
        rss_mb=psutil.Process(control_plane.pid).memory_info().rss / 1e6,
        interval_p99_ms=float(np.percentile(seen["intervals_ms"], 99)),
        tables=len(seen["intervals_ms"]),
        delivered=min(
            reports["sent"] / (due * nodes / NODES_PER_AGENT),
            seen["sent"] / (due * ENVOYS * VMS),
        ),
        machine=machine,
    )


def _await_listening(control_plane: Process, port: int) -> None:
    deadline_s = time.monotonic() + READY_S
    while time.monotonic() < deadline_s:
        control_plane.require_running()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"the control plane does not listen after {READY_S:g} s")


class Load:
    """A process that plays a part of the fleet; see scale_load."""

    def __init__(self, kind: str, port: int, nodes: int) -> None:
        self.kind = kind
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmark.scale_load", kind, str(port), str(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._popen.stdout, selectors.EVENT_READ)
            if not selector.select(READY_S):
                raise TimeoutError(f"the {self.kind} were not ready within {READY_S:g} s")
        self._line()

    def ask(self) -> dict[str, Any]:
        """What it saw since it was asked last."""
        self._popen.stdin.write("\n")
        self._popen.stdin.flush()
        return self._line()

    def stop(self) -> None:
        self._popen.stdin.close()
        try:
            self._popen.wait(5.0)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def _line(self) -> dict[str, Any]:
        line = self._popen.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that plays the {self.kind} ended")
        return json.loads(line)


@contextmanager
def _load(kind: str, port: int, nodes: int) -> Iterator[Load]:
    load = Load(kind, port, nodes)
    try:
        load.ready()
        yield load
    finally:
        load.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmark.control_scale", description=__doc__
    )
    parser.add_argument("--size", choices=SIZES, action="append", help="only this one")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seconds", type=float, default=RUN_S, help="of each run")
    options = parser.parse_args(arguments)
    entries = [
        entry
        for size in options.size or SIZES
        for entry in judge(size, measure(SIZES[size], options.runs, options.seconds))
    ]
    merge(entries)
    show(entries)
    return 0 if all(entry.ok for entry in entries) else 1


if __name__ == "__main__":
    sys.exit(main())
