"""An agent's stand-in: tells a real control plane five times a second that its nodes are there."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from isocost.model import EngineSample, GpuSample, Node, NodeSample, measured
from isocost.telemetry.report import encode_report
from isocost.telemetry.uplink import Newest, Uplink

_INTERVAL_S = 0.2


class Announcer:
    """A context manager. ``nodes`` may be replaced at any time: the next report has them.
    ``sample`` is what each report says of a node.
    """

    def __init__(
        self,
        control_plane_port: int,
        nodes: Iterable[Node],
        sample: Callable[[Node], NodeSample] | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        self._sample = sample or healthy_sample
        self._newest = Newest()
        self._uplink = Uplink(
            f"127.0.0.1:{control_plane_port}", self._newest, random.Random(control_plane_port)
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Announcer:
        self._tasks = [asyncio.create_task(self._report()), asyncio.create_task(self._uplink.run())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _report(self) -> None:
        sequence = 0
        while True:
            sequence += 1
            samples = [self._sample(node) for node in self.nodes]
            self._newest.put(
                encode_report("stand-in", sequence, time.time(), time.monotonic(), samples)
            )
            await asyncio.sleep(_INTERVAL_S)


def healthy_sample(node: Node) -> NodeSample:
    """What an agent says of a node that is well and has half of its memory free."""
    gpu = GpuSample(
        f"{node.name}-gpu",
        vram_total_bytes=measured(80e9),
        vram_free_bytes=measured(40e9),
        gpu_utilisation=measured(0.5),
        pcie_bytes_per_s=measured(0.0),
        nvlink_active_fraction=measured(1.0),
    )
    return NodeSample(node, engine_up=True, gpus=(gpu,), engine=EngineSample())
