"""The demo's course: check, start, wait, replay, report. Whatever happens, everything ends."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import tempfile
import time
from pathlib import Path

import aiohttp
from rich.console import Console

from isocost import __version__
from isocost.bench import machine
from isocost.bench.access_log import AccessLog
from isocost.bench.assemble import Measurement, assemble
from isocost.bench.control_plane import ControlPlane
from isocost.bench.load import load
from isocost.bench.outputs import require_writable
from isocost.bench.processes import MachineReading
from isocost.bench.progress import Counts, display_for
from isocost.bench.replay import Replay, ReplaySettings
from isocost.bench.report import TargetInfo, TraceInfo
from isocost.bench.result import RequestResult
from isocost.bench.target import Target
from isocost.bench.watch import watched
from isocost.demo import launch
from isocost.demo.fleet import MODEL
from isocost.demo.observer import DemoObserver
from isocost.demo.options import DemoOptions
from isocost.demo.ports import check_ports
from isocost.demo.processes import Processes
from isocost.demo.readiness import wait_ready
from isocost.demo.results import print_results
from isocost.demo.verdict import problems
from isocost.envoy.binary import find_envoy
from isocost.errors import StartError
from isocost.files import WASM

#: Ten minutes of real conversations, replayed in the demo's time.
_TRACE, _TRACE_SPAN_S = "azure-conv", 600.0


async def run_demo(options: DemoOptions, console: Console) -> int:
    """Run the demo; the exit code: 0 if nothing failed, 1 if something did.

    StartError: something is missing, a port is taken, or a process ended by itself.
    """
    check_ports(launch.wanted_ports(options))
    envoy = find_envoy(options.envoy)
    if not WASM.is_file():
        raise StartError(f"the filter {WASM} is missing: build it with `make filter`")
    require_writable("--report", options.report)
    run_dir = Path(tempfile.mkdtemp(prefix="isocost-demo-"))
    keep_logs = True
    try:
        with Processes(run_dir) as processes:
            stage = launch.Stage(run_dir, envoy, options)
            run = await _run(stage, processes, console)
        report = assemble(run)
        print_results(console, report)
        report.write(options.report)
        console.print(f"report: {options.report}", highlight=False, soft_wrap=True)
        found = problems(report, run)
        for problem in found:
            console.print(f"FAILED: {problem}", style="bold red", soft_wrap=True)
        keep_logs = options.keep_logs or bool(found)
    except asyncio.CancelledError:
        keep_logs = options.keep_logs
        raise
    finally:
        if keep_logs:
            console.print(f"logs: {run_dir}", highlight=False, soft_wrap=True)
        else:
            shutil.rmtree(run_dir, ignore_errors=True)
    return 1 if found else 0


async def _run(stage: launch.Stage, processes: Processes, console: Console) -> Measurement:
    """Start everything, wait for it, and replay the trace."""
    options = stage.options
    started_s = time.monotonic()
    envoy_pid = launch.start_all(stage, processes)
    target = Target("demo", f"http://127.0.0.1:{options.port}")
    gateway = ReplaySettings(target.chat_url, MODEL, options.seed)
    access_log = AccessLog(stage.access_log)
    async with aiohttp.ClientSession() as session:
        control_plane = ControlPlane(session, f"http://127.0.0.1:{options.http_port}")
        await wait_ready(stage.nodes, processes, control_plane, access_log, gateway)
        console.print(
            f"{len(stage.nodes)} nodes ready after {time.monotonic() - started_s:.1f} s; "
            f"gateway {target.url}, control plane http://127.0.0.1:{options.http_port}",
            highlight=False,
            soft_wrap=True,
        )
        time_scale = _TRACE_SPAN_S / options.duration_s
        requests = load(_TRACE, time_scale=time_scale)
        observer = DemoObserver(stage.nodes, access_log, control_plane)
        before, envoy_cpu_before_s = MachineReading.take(), machine.process_cpu_s(envoy_pid)
        results = await _replay(Replay(requests, gateway), observer, processes, console)
        after, envoy_cpu_after_s = MachineReading.take(), machine.process_cpu_s(envoy_pid)
        await observer.read_log_until(len(results))
        return Measurement(
            policy=options.policy,
            target=TargetInfo(target.name, target.url),
            trace=TraceInfo(_TRACE, len(requests), options.duration_s, time_scale),
            seed=options.seed,
            results=results,
            log=tuple(observer.log),
            nodes={node.name: node.rack for node in stage.nodes},
            samples=tuple(observer.samples),
            push_interval_ms=await control_plane.push_interval_ms(),
            wasm_bytes=WASM.stat().st_size,
            envoy_cpu_s=_difference(envoy_cpu_after_s, envoy_cpu_before_s),
            machine_busy=before.busy_until(after),
            processes=before.processes_until(after),
            versions={
                "isocost": __version__,
                "envoy": await _envoy_version(session, options.admin_port),
                "python": platform.python_version(),
            },
        )


async def _replay(
    replay: Replay, observer: DemoObserver, processes: Processes, console: Console
) -> tuple[RequestResult, ...]:
    """Replay while watching; StartError if a process ends meanwhile."""
    os.nice(launch.LOAD_NICE)
    with display_for(console) as display:

        def look() -> None:
            processes.check()
            observer.read_log()
            display.update(replay.now_s, Counts.of(replay), observer.view())

        return await watched(replay, observer, look)


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


async def _envoy_version(session: aiohttp.ClientSession, admin_port: int) -> str | None:
    """Envoy's release, from "COMMIT/RELEASE/Clean/..." as its admin page says it."""
    try:
        async with session.get(f"http://127.0.0.1:{admin_port}/server_info") as response:
            info = await response.json(content_type=None)
        return str(info["version"]).split("/")[1]
    except (aiohttp.ClientError, ValueError, LookupError):
        return None
