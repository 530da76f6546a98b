"""What a tick of the control plane costs, and what it takes to receive what the tick works with.

    PYTHONPATH=.:control_plane python -m tests.benchmark.tick_cost

`make bench` runs it. In each round of 200 ms every agent reports, each VM of four Envoys has news
of every node, and the tick publishes a table: all of it in one process, on a clock of its own, as
the daemon does it but for the sockets. The figures go to build/bench.json; the exit code is 1 if a
bar is missed.
"""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median

from isocost import collector
from isocost.config import ControlPlaneConfig
from isocost.discovery.registry import Registry
from isocost.discovery.report import ReportReader
from isocost.manual import Manual
from isocost.observe.fleet import FleetObserver
from isocost.pipeline import Pipeline
from isocost.push import observation_service
from isocost.push.cache import Cache
from isocost.v1 import observation_pb2
from tests.benchmark.bench_json import Entry, at_most, merge
from tests.benchmark.filter_cost import show
from tests.benchmark.tick_fleet import Fleet, Round

ROUND_S = 0.2
#: A roster that changes and the first tables are not what a tick costs.
WARM_UP, TICKS, RUNS = 10, 60, 3
#: Of a whole round, received and ticked, 1,024 nodes may take 25 % of a core, and 10,240 one core.
TICK_MS = {"1024": 10.0, "10240": 60.0}
SIZES = {"1024": (1024, 1), "10240": (10_240, 1), "1024x8gpu": (1024, 8)}
UNIX_S = 1_790_000_000.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one stage, ms in a round: by the clock and of the processor; medians and the largest."""

    wall_ms: float
    cpu_ms: float
    most_ms: float


@dataclass(frozen=True, slots=True)
class Run:
    telemetry: Cost
    observations: Cost
    tick: Cost

    @property
    def receive_ms(self) -> float:
        return self.telemetry.wall_ms + self.observations.wall_ms


class Stage:
    """Takes the time of what it runs."""

    def __init__(self) -> None:
        self._wall_ms: list[float] = []
        self._cpu_ms: list[float] = []

    def run(self, work: Callable[[], None]) -> None:
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        work()
        self._cpu_ms.append((time.process_time() - cpu_s) * 1e3)
        self._wall_ms.append((time.perf_counter() - wall_s) * 1e3)

    def cost(self) -> Cost:
        wall, cpu = self._wall_ms[WARM_UP:], self._cpu_ms[WARM_UP:]
        return Cost(median(wall), median(cpu), max(wall))


class ControlPlane:
    """What the daemon wires, without sockets."""

    def __init__(self, agents: int) -> None:
        config = ControlPlaneConfig()
        self._registry = Registry(config.discovery, 0.0)
        self._observer = FleetObserver(config.weight.latency_window_s, config.states.window_s)
        self._pipeline = Pipeline(config, self._registry, self._observer, Cache(), Manual())
        self._readers = [ReportReader() for _ in range(agents)]

    def telemetry(self, reports: Iterable[bytes], now_s: float) -> None:
        for reader, data in zip(self._readers, reports, strict=True):
            self._registry.receive(reader.read(data, UNIX_S + now_s), now_s)

    def observations(self, reports: Iterable[bytes], now_s: float) -> None:
        for data in reports:
            message = observation_pb2.ObservationReport.FromString(data)
            observation_service.take(message, self._observer, now_s)

    def tick(self, now_s: float) -> None:
        before = self._pipeline.table_version
        self._pipeline.tick(now_s, int((UNIX_S + now_s) * 1e3))
        if now_s > 1.0 and self._pipeline.table_version == before:
            raise RuntimeError("a tick published nothing")


def measure(nodes: int, gpus: int) -> Run:
    """One run, in a process of its own."""
    logging.disable(logging.WARNING)
    fleet = Fleet(nodes, gpus)
    control_plane = ControlPlane(nodes)
    telemetry, observations, tick = Stage(), Stage(), Stage()
    collector.serve_from_here()
    for number in range(1, WARM_UP + TICKS + 1):
        now_s = number * ROUND_S
        delivered = _undisturbed(fleet, now_s)
        telemetry.run(lambda r=delivered, t=now_s: control_plane.telemetry(r.telemetry, t))
        observations.run(lambda r=delivered, t=now_s: control_plane.observations(r.observations, t))
        tick.run(lambda t=now_s: control_plane.tick(t))
    return Run(telemetry.cost(), observations.cost(), tick.cost())


def _undisturbed(fleet: Fleet, now_s: float) -> Round:
    """What agents and Envoys send; their garbage is none of the control plane's."""
    gc.disable()
    try:
        return fleet.round(now_s, UNIX_S + now_s)
    finally:
        gc.enable()


def judge(name: str, runs: Sequence[Run]) -> list[Entry]:
    """Medians of the runs. What has no bar is for information."""
    nodes, gpus = SIZES[name]
    tick_ms = tuple(round(run.tick.wall_ms, 2) for run in runs)
    receive_ms = tuple(round(run.receive_ms, 2) for run in runs)
    core = (median(tick_ms) + median(receive_ms)) / (ROUND_S * 1e3)
    tick_note = (
        f"{nodes:,} nodes of {gpus} GPU{'s' if gpus > 1 else ''}, {TICKS} ticks a run; CPU time "
        f"{_least(r.tick.cpu_ms for r in runs)} ms, slowest {_least(r.tick.most_ms for r in runs)}"
    )
    receive_note = (
        f"of {ROUND_S * 1e3:g} ms, telemetry {_least(r.telemetry.wall_ms for r in runs)} and news "
        f"of all nodes from 4 Envoys with 2 VMs {_least(r.observations.wall_ms for r in runs)}; "
        f"with the tick {core:.2f} of a core"
    )
    tick = f"control.tick_ms.{name}", median(tick_ms), "ms"
    receive = f"control.receive_ms.{name}", median(receive_ms), "ms"
    return [
        at_most(*tick, TICK_MS[name], tick_ms, tick_note)
        if name in TICK_MS
        else Entry(*tick, "none", True, tick_ms, tick_note),
        Entry(*receive, "none", True, receive_ms, receive_note),
    ]


def _least(values: Iterable[float]) -> float:
    return round(min(values), 2)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmark.tick_cost", description=__doc__
    )
    parser.add_argument("--size", choices=SIZES, action="append", help="only this one")
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args(arguments)
    names: list[str] = options.size or list(SIZES)
    runs: dict[str, list[Run]] = {name: [] for name in names}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        for _ in range(options.runs):
            for name in names:
                runs[name].append(pool.submit(measure, *SIZES[name]).result())
    entries = [entry for name in names for entry in judge(name, runs[name])]
    merge(entries)
    show(entries)
    return 0 if all(entry.ok for entry in entries) else 1


if __name__ == "__main__":
    sys.exit(main())
