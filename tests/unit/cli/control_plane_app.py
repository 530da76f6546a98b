"""The real admin application over a real fleet, served by a thread for the commands to call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from aiohttp import web

from isocost.admin import application
from isocost.config import ControlPlaneConfig
from isocost.daemon import ControlPlane
from isocost.model import GpuSample, Node, NodeSample, measured
from isocost.observe.batch import Batch, NodeObservation
from tests.unit.fleet_builder import node, sample
from tests.unit.hardware_samples import TAKEN_S
from tests.unit.sample_blocks import agent_report

NODES = tuple(node(f"gpu-{number}", address=f"192.0.2.{number}:80") for number in (1, 2, 3))


class Served:
    """A control plane without gRPC; its ticks come from the test."""

    def __init__(self, control_plane: ControlPlane, port: int) -> None:
        self.control_plane = control_plane
        self.http = f"127.0.0.1:{port}"
        self._loop = asyncio.get_running_loop()
        self._now_s = time.monotonic()
        self._sequence = 0
        #: GPUs by node name, where a test is about them.
        self.gpus: dict[str, tuple[GpuSample, ...]] = {}

    def tick(self, seconds: float = 0.2, **in_flight: int) -> None:
        """Time passes; ``in_flight`` by node name with _ for -."""
        done = threading.Event()

        def work() -> None:
            self._tick(seconds, in_flight)
            done.set()

        self._loop.call_soon_threadsafe(work)
        assert done.wait(10.0)

    def _tick(self, seconds: float, in_flight: dict[str, int]) -> None:
        self._now_s += seconds
        self._sequence += 1
        samples = tuple(self._sample(item, self._open(item, in_flight)) for item in NODES)
        self.control_plane._registry.receive(
            agent_report("agent", self._sequence, 0.0, 0.0, samples), self._now_s
        )
        nodes = tuple(
            NodeObservation(item.id, in_flight=self._open(item, in_flight)) for item in NODES
        )
        self.control_plane._observer.apply(Batch("edge", 1, self._sequence, nodes), self._now_s)
        self.control_plane._pipeline.tick(self._now_s, int(time.time() * 1e3))

    @staticmethod
    def _open(of: Node, in_flight: dict[str, int]) -> int:
        return in_flight.get(of.name.replace("-", "_"), 0)

    def _sample(self, of: Node, running: int) -> NodeSample:
        found = sample(of)
        engine = replace(found.engine, running=measured(running))
        gpus = self.gpus.get(of.name, found.gpus)
        return replace(found, engine=engine, gpus=gpus, taken_s=TAKEN_S)


@contextmanager
def served(config: ControlPlaneConfig | None = None) -> Iterator[Served]:
    """A fleet of three that serves, on a port of its own."""
    ready: list[Served] = []
    started = threading.Event()
    stop: list[Callable[[], None]] = []

    async def main() -> None:
        control_plane = ControlPlane(config or ControlPlaneConfig())
        runner = web.AppRunner(application(control_plane), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        ready.append(Served(control_plane, runner.addresses[0][1]))
        started.set()
        await ended.wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert started.wait(10.0)
    try:
        for _ in range(3):
            ready[0].tick()
        yield ready[0]
    finally:
        stop[0]()
        thread.join(10.0)
