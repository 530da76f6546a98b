"""One sample of each node: its pages scraped together, what fails shown with its age."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import aiohttp

from isocost.config import AgentNodeSettings
from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    Node,
    NodeSample,
    Signal,
    SignalState,
)
from isocost.telemetry import gpu
from isocost.telemetry.cuda_handles import HandleReading
from isocost.telemetry.engines import detect
from isocost.telemetry.engines.counter import fell
from isocost.telemetry.engines.page import EnginePage
from isocost.telemetry.engines.recent import Quantiles, RecentLatencies
from isocost.telemetry.handle_watch import HandleWatch
from isocost.telemetry.machine import Machine
from isocost.telemetry.scrape import Target

#: A value from a page that did not come again is stale at once if the page failed, and after this
#: if the page is only late; after ABSENT_S it is not known any more.
FRESH_S = 1.0
ABSENT_S = 5.0
_COUNTERS = ("prompt_tokens_total", "generation_tokens_total", "steps_total")

Sample = TypeVar("Sample", EngineSample, GpuSample)

log = logging.getLogger(__name__)


class NodeSampler:
    """Samples one node. ``clock`` is monotonic, ``wall`` unix seconds."""

    def __init__(
        self,
        settings: AgentNodeSettings,
        session: aiohttp.ClientSession,
        machine: Machine | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._engine = Target(session, settings.metrics_url, self._read_engine, clock)
        self._gpu = (
            Target(session, settings.telemetry_url, detect.read_gpu_page, clock)
            if settings.telemetry_url is not None
            else None
        )
        self._nvml = None if machine is None else machine.nvml
        self._network = None if machine is None else machine.network
        #: Who the engine's processes are is only known from NVML.
        self._handles = None
        if machine is not None and machine.nvml is not None:
            self._handles = HandleWatch(self._pids, machine.procfs)
        self._seen: EnginePage | None = None
        #: What the instance's counters last said: a page may lack them for a while.
        self._counters = dict.fromkeys(_COUNTERS, ABSENT)
        self._engine_kind = ""
        self._epoch: int | None = None
        self._node: Node | None = None
        self._latencies = RecentLatencies()
        self._told: dict[str, bool] = {}
        #: Of the node's GPUs, those that NVML does not list.
        self._missing: set[str] = set()

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def gpus(self) -> tuple[str, ...]:
        """The UUIDs of those that are read through NVML."""
        return self._settings.gpus

    @property
    def pages(self) -> dict[str, Target[Any]]:
        """What is scraped, by what it is."""
        return {"engine": self._engine} | ({"gpus": self._gpu} if self._gpu else {})

    async def watch(self) -> None:
        """Watch the engine's processes until cancelled, beside the samples."""
        if self._handles is not None:
            await self._handles.run(
                self.name,
                self._settings.restart_command,
                lambda: self._node.instance_id if self._node else "",
            )

    async def read_handles(self) -> None:
        """Look at the engine's processes once."""
        if self._handles is not None:
            await self._handles.read()

    def _pids(self) -> set[int]:
        """Of what computes on the node's GPUs."""
        conditions = [self._nvml.condition.find(uuid) for uuid in self.gpus] if self._nvml else []
        return {
            process.pid
            for condition in conditions
            if condition is not None
            for process in condition.processes
        }

    def latencies(self) -> dict[str, Quantiles]:
        """The engine's latencies of the last half minute."""
        return self._latencies.quantiles(self._clock())

    def start(self) -> list[asyncio.Task[None]]:
        """Scrape the pages, unless that is still going on."""
        return [target.start() for target in self.pages.values()]

    def sample(self) -> NodeSample | None:
        """What is known now; None until the engine was up once: who it is is not known before."""
        self._tell("engine", self._engine)
        if self._gpu is not None:
            self._tell("telemetry page", self._gpu)
        node = self._identify()
        if node is None:
            return None
        now_s = self._clock()
        engine = EngineSample()
        if self._engine.page is not None:
            engine = _aged(self._engine.page.sample, self._engine, now_s)
        handles = self._handles.reading if self._handles else HandleReading(UNSUPPORTED)
        sample = NodeSample(
            node=node,
            engine_up=self._engine.there,
            engine=engine,
            net_bytes_per_s=self._network.rate(self._settings.network) if self._network else ABSENT,
            cuda_handles=handles.handles,
            cuda_handles_dropped=handles.dropped,
            taken_s=now_s,
        )
        if self._gpu is None:
            return dataclasses.replace(sample, gpus=self._nvml_gpus())
        page = self._gpu.page or gpu.GpuPage()
        return dataclasses.replace(
            sample,
            gpus=tuple(_aged(item, self._gpu, now_s) for item in self._own(page)),
            net_bytes_per_s=_age(page.net_bytes_per_s, self._gpu, now_s),
            clock_offset_s=self._clock_offset_s(self._gpu, page, now_s),
        )

    def _read_engine(self, text: str) -> EnginePage:
        page = detect.read_engine_page(text)
        now_s = self._clock()
        if page.engine and self._latencies.due(now_s):
            self._latencies.take(detect.read_latencies(text), now_s)
        return page

    def _nvml_gpus(self) -> tuple[GpuSample, ...]:
        """The node's own GPUs, known or not."""
        if self._nvml is None:
            return tuple(GpuSample(uuid) for uuid in self._settings.gpus)
        if self._nvml.load.heard.is_set():
            missing = {uuid for uuid in self._settings.gpus if self._nvml.load.find(uuid) is None}
            if missing - self._missing:
                log.warning("%s: NVML does not list %s", self._settings.name, _list(missing))
            if self._missing - missing:
                log.info("%s: NVML lists %s", self._settings.name, _list(self._missing - missing))
            self._missing = missing
        return tuple(self._nvml.sample(uuid) for uuid in self._settings.gpus)

    def _clock_offset_s(
        self, target: Target[gpu.GpuPage], page: gpu.GpuPage, now_s: float
    ) -> float:
        """The node's clock less this one's; it goes on while its page does not answer."""
        if page.wall_unix_s is None or target.taken_s is None:
            return 0.0
        return page.wall_unix_s + (now_s - target.taken_s) - self._wall()

    def _identify(self) -> Node | None:
        """The node as the instance that its last good page came from."""
        page = self._engine.page
        if page is None or page is self._seen:
            return self._node
        if page.started_unix_s is not None:
            epoch = int(page.started_unix_s)
        elif self._epoch is None:
            epoch = int(self._wall())
        elif self._restarted(page):
            epoch = max(int(self._wall()), self._epoch + 1)
        else:
            epoch = self._epoch
        self._seen = page
        self._remember(page, anew=epoch != self._epoch)
        if epoch != self._epoch:
            self._epoch = epoch
            self._node = self._settings.node(epoch)
            self._latencies.forget()
            log.info("%s is instance %s", self._settings.name, self._node.instance_id)
        return self._node

    def _restarted(self, page: EnginePage) -> bool:
        """Without a start time a restart shows in a counter that fell, or another engine."""
        if page.engine and self._engine_kind and page.engine != self._engine_kind:
            return True
        sample = page.sample
        return any(fell(last, getattr(sample, name)) for name, last in self._counters.items())

    def _remember(self, page: EnginePage, anew: bool) -> None:
        if page.engine:
            self._engine_kind = page.engine
        for name in _COUNTERS:
            signal: Signal = getattr(page.sample, name)
            if signal.known or anew:
                self._counters[name] = signal

    def _own(self, page: gpu.GpuPage) -> tuple[GpuSample, ...]:
        """The node's GPUs. Of a machine with more than it has, nobody says which they are."""
        if page.whole_machine and len(page.gpus) != self._settings.gpu_count:
            return ()
        return page.gpus

    def _tell(self, what: str, target: Target[Any]) -> None:
        """Log when a page begins or ceases to answer."""
        if target.page is None and target.error is None:
            return
        if self._told.get(what) == target.good:
            return
        self._told[what] = target.good
        if target.good:
            log.info("%s: the %s answers", self._settings.name, what)
        else:
            log.warning("%s: the %s does not answer: %s", self._settings.name, what, target.error)


def _list(uuids: set[str]) -> str:
    return ", ".join(sorted(uuids))


async def sample_all(samplers: Sequence[NodeSampler], wait_s: float) -> tuple[NodeSample, ...]:
    """Scrape all nodes and sample those that are known; a page later than ``wait_s`` goes on
    loading and counts for a later sample.
    """
    scrapes = [task for sampler in samplers for task in sampler.start()]
    await asyncio.wait(scrapes, timeout=wait_s)
    samples = [sampler.sample() for sampler in samplers]
    return tuple(sample for sample in samples if sample is not None)


def _aged(sample: Sample, target: Target[Any], now_s: float) -> Sample:
    """The sample with every signal's state and age as of now."""
    signals: dict[str, Any] = {
        field.name: _age(value, target, now_s)
        for field in dataclasses.fields(sample)
        if isinstance(value := getattr(sample, field.name), Signal)
    }
    return dataclasses.replace(sample, **signals)


def _age(signal: Signal, target: Target[Any], now_s: float) -> Signal:
    if signal.state is not SignalState.MEASURED or target.taken_s is None:
        return signal
    age_s = now_s - target.taken_s
    if age_s > ABSENT_S:
        return ABSENT
    fresh = target.good and age_s <= FRESH_S
    return Signal(SignalState.MEASURED if fresh else SignalState.STALE, signal.value, age_s)
