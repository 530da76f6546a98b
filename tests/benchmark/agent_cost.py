"""What the agent of a machine with eight GPUs costs, against its bars: CPU, memory, punctuality.

    PYTHONPATH=.:control_plane python -m tests.benchmark.agent_cost

`make bench` runs it. The agent is a real one with both its readers, over the NVML library without a
GPU: 18 NVLinks each, and PCIe throughput that takes 20 ms by direction. Its engine is a recorded
vLLM page. The figures go to build/bench.json; the exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import grpc
import numpy as np
import psutil
import yaml
from aiohttp import web

from isocost.discovery.report import AgentReport, ReportReader
from isocost.discovery.telemetry_service import SERVICE
from isocost.model import SignalState
from isocost.v1 import telemetry_pb2
from tests.benchmark.bench_json import Entry, at_most, merge
from tests.benchmark.filter_cost import cpu_s, show
from tests.integration.harness.wait import wait_until
from tests.unit.sample_blocks import samples_of
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library
from tests.unit.telemetry.pages import recorded

GPUS, NVLINKS, PCIE_MS = 8, 18, 20
RUNS, RUN_S = 3, 10.0
#: Imports, the first connection and the first of everything are not what an agent costs.
WARM_UP_S = 5.0
READY_S = 60.0
CPU_FRACTION, RSS_MB, INTERVAL_MS = 0.03, 80.0, 220.0


@dataclass(frozen=True, slots=True)
class Run:
    """``main`` is the agent's own process, the readers are its children; memory at the end.

    ``memory_mb`` is what all of them have in memory, each file's pages counted once: Python, its
    libraries and the driver's are the same pages in all three. PSS would be that too, were there
    no other Python on the machine to share them with.
    """

    main_cpu: float
    readers_cpu: float
    main_rss_mb: float
    readers_rss_mb: float
    memory_mb: float
    interval_p99_ms: float


class Reports:
    """A stand-in for the control plane: when reports came, and the last one."""

    def __init__(self) -> None:
        self.arrived_s: list[float] = []
        self.last: AgentReport | None = None

    async def receive(
        self, requests: AsyncIterator[bytes], _: object
    ) -> telemetry_pb2.TelemetryAck:
        reader = ReportReader()
        async for data in requests:
            self.arrived_s.append(time.monotonic())
            self.last = reader.read(data, time.time())
        return telemetry_pb2.TelemetryAck()

    def complete(self) -> bool:
        """Every GPU with its slow signals."""
        gpus = [gpu for node in samples_of(self.last) for gpu in node.gpus] if self.last else []
        return len(gpus) == GPUS and all(
            gpu.pcie_bytes_per_s.state == SignalState.MEASURED for gpu in gpus
        )


def main() -> int:
    build_library()
    with tempfile.TemporaryDirectory() as name:
        runs = asyncio.run(measure(Path(name)))
    entries = judge(runs)
    merge(entries)
    show(entries)
    return 0 if all(entry.ok for entry in entries) else 1


async def measure(folder: Path) -> list[Run]:
    """The runs follow each other in the life of one agent."""
    gpus = _gpus(folder)
    async with _control_plane() as (port, reports), _engine() as url:
        config = folder / "agent.yaml"
        config.write_text(yaml.safe_dump(_config(port, url)), encoding="utf-8")
        agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "isocost.cli.main", "agent", "--config", str(config)),
            env=gpus.environment,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await wait_until(reports.complete, "the agent reports all of its GPUs", READY_S)
            await asyncio.sleep(WARM_UP_S)
            return [await _run(psutil.Process(agent.pid), reports) for _ in range(RUNS)]
        finally:
            agent.terminate()
            await agent.wait()


def judge(runs: list[Run]) -> list[Entry]:
    """Medians of the runs."""
    cpu = tuple(round(run.main_cpu + run.readers_cpu, 4) for run in runs)
    memory_mb = tuple(round(run.memory_mb, 1) for run in runs)
    interval_ms = tuple(round(run.interval_p99_ms, 1) for run in runs)
    main_cpu, readers_cpu = (median(r.main_cpu for r in runs), median(r.readers_cpu for r in runs))
    main_mb, readers_mb = runs[-1].main_rss_mb, runs[-1].readers_rss_mb
    setup = f"{GPUS} GPUs with {NVLINKS} NVLinks, {PCIE_MS} ms a PCIe reading, {RUN_S:g} s a run"
    return [
        at_most(
            "agent.cpu_fraction.8gpu",
            median(cpu),
            "",
            CPU_FRACTION,
            cpu,
            f"of a core: agent {main_cpu:.4f}, its two readers {readers_cpu:.4f}; {setup}",
        ),
        at_most(
            "agent.rss_mb.8gpu",
            median(memory_mb),
            "MB",
            RSS_MB,
            memory_mb,
            f"what the processes share counted once; agent {main_mb:.1f}, its two readers "
            f"{readers_mb:.1f} on their own",
        ),
        at_most(
            "agent.interval_p99_ms",
            median(interval_ms),
            "ms",
            INTERVAL_MS,
            interval_ms,
            "between two reports as the control plane receives them",
        ),
    ]


async def _run(agent: psutil.Process, reports: Reports) -> Run:
    readers = agent.children()
    if len(readers) != 2:
        raise RuntimeError(f"the agent has {len(readers)} readers instead of 2")
    reports.arrived_s.clear()
    began_s = time.monotonic()
    before_s = [cpu_s(process.pid) for process in (agent, *readers)]
    await asyncio.sleep(RUN_S)
    after_s = [cpu_s(process.pid) for process in (agent, *readers)]
    took_s = time.monotonic() - began_s
    main_cpu, *readers_cpu = (
        (after - before) / took_s for before, after in zip(before_s, after_s, strict=True)
    )
    return Run(
        main_cpu,
        sum(readers_cpu),
        agent.memory_info().rss / 1e6,
        sum(reader.memory_info().rss for reader in readers) / 1e6,
        _memory_mb([agent, *readers]),
        float(np.percentile(np.diff(reports.arrived_s), 99)) * 1e3,
    )


def _memory_mb(processes: list[psutil.Process]) -> float:
    """Of a file that several have mapped, the pages of the one that has most of them."""
    private, files = 0, dict[str, int]()
    for process in processes:
        for mapped in process.memory_maps(grouped=True):
            own = mapped.anonymous
            private += own
            files[mapped.path] = max(files.get(mapped.path, 0), mapped.rss - own)
    return (private + sum(files.values())) / 1e6


def _gpus(folder: Path) -> FakeGpus:
    names = _names()
    state: dict[str, object] = {"gpus": ",".join(names)}
    for name in names:
        state |= {f"{name}.nvlinks": NVLINKS, f"{name}.pcie_ms": PCIE_MS}
    return FakeGpus(folder, **state)


def _names() -> list[str]:
    return [f"g{number}" for number in range(GPUS)]


def _config(port: int, engine: str) -> dict[str, object]:
    node = {
        "name": "n1",
        "address": "127.0.0.1:9",
        "rack": "r1",
        "host": "h1",
        "gpu_count": GPUS,
        "metrics_url": engine,
        "gpus": [f"GPU-{name}" for name in _names()],
    }
    return {"name": "a1", "control_plane": f"127.0.0.1:{port}", "nodes": [node]}


@asynccontextmanager
async def _control_plane() -> AsyncIterator[tuple[int, Reports]]:
    reports = Reports()
    handler = grpc.stream_unary_rpc_method_handler(
        reports.receive, response_serializer=telemetry_pb2.TelemetryAck.SerializeToString
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"Report": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port, reports
    finally:
        await server.stop(0)


@asynccontextmanager
async def _engine() -> AsyncIterator[str]:
    """The URL of a recorded page."""
    page = recorded("vllm", "vllm-v1-qwen3-0.6b.txt")

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=page)

    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())
