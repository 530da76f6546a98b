"""When the demo's parts are ready: found out by asking, never by waiting for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from isocost.bench.access_log import PICKED, AccessLog
from isocost.bench.control_plane import ControlPlane
from isocost.bench.observer import Observer
from isocost.bench.replay import Replay, ReplaySettings
from isocost.bench.trace import TraceRequest
from isocost.demo.fleet import DemoNode
from isocost.demo.processes import Processes
from isocost.errors import StartError

#: A slow machine compiles every Python module at the first start; the usual start takes 4 s.
_DEADLINE_S = 60.0
_POLL_S = 0.1
#: Requests over new connections: the chance that one of two workers gets none of 12 is 1 in 2048.
_PROBES = (TraceRequest(arrival_s=0.0, input_tokens=16, output_tokens=2),) * 12


async def wait_ready(
    fleet: Sequence[DemoNode],
    processes: Processes,
    control_plane: ControlPlane,
    access_log: AccessLog,
    gateway: ReplaySettings,
) -> None:
    """Return once every node takes traffic and the filter picks for every worker of Envoy.

    The access log is read up to the last probe. StartError says what is still missing.
    """
    deadline_s = time.monotonic() + _DEADLINE_S
    while True:
        processes.check()
        missing = await _missing_nodes(fleet, control_plane)
        if missing is None:
            missing = await _missing_picks(access_log, gateway)
        if missing is None:
            return
        if time.monotonic() > deadline_s:
            raise StartError(f"not ready after {_DEADLINE_S:.0f} s: {missing}")
        await asyncio.sleep(_POLL_S)


async def _missing_nodes(fleet: Sequence[DemoNode], control_plane: ControlPlane) -> str | None:
    nodes = await control_plane.nodes()
    if nodes is None:
        return "the control plane does not answer"
    ready = {node.name for node in nodes if node.takes_traffic}
    missing = [node.name for node in fleet if node.name not in ready]
    return f"the control plane has no weight for {', '.join(missing)}" if missing else None


async def _missing_picks(access_log: AccessLog, gateway: ReplaySettings) -> str | None:
    results = await Replay(_PROBES, gateway).run()
    answered = sum(result.status is not None for result in results)
    observer = Observer(access_log, None)
    await observer.read_log_until(answered)
    entries = observer.log
    for result in results:
        if not result.ok:
            return f"a request through Envoy failed: {result.failure}, status {result.status}"
    if len(entries) != len(results):
        return f"Envoy logged {len(entries)} requests of {len(results)}"
    for entry in entries:
        if entry.reason != PICKED:
            return f"the filter did not pick: {entry.reason or 'no decision in the log'}"
    return None
