"""One sample of each node: its pages scraped together, what fails shown with its age."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from isocost.config import AgentNodeSettings
from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    NodeSample,
    Signal,
    SignalState,
)
from isocost.telemetry import node_page
from isocost.telemetry.cuda_handles import HandleReading
from isocost.telemetry.engines import dcgm, detect
from isocost.telemetry.engines.page import EnginePage
from isocost.telemetry.engines.recent import Quantiles, RecentLatencies
from isocost.telemetry.handle_watch import HandleWatch
from isocost.telemetry.instance import InstanceWatch
from isocost.telemetry.machine import Machine
from isocost.telemetry.node_gpus import NodeGpus
from isocost.telemetry.scrape import Pages, Target

#: A value from a page that did not come again is stale at once if the page failed, and after this
#: if the page is only late; after ABSENT_S it is not known any more.
FRESH_S = 1.0
ABSENT_S = 5.0

Sample = TypeVar("Sample", EngineSample, GpuSample)

log = logging.getLogger(__name__)


class NodeSampler:
    """Samples one node; without a ``machine`` nothing is known of that. ``clock`` is monotonic,
    ``wall`` unix seconds.
    """

    def __init__(
        self,
        settings: AgentNodeSettings,
        pages: Pages,
        machine: Machine | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._engine = Target(pages, settings.metrics_url, self._read_engine, clock)
        self._dcgm = (
            Target(pages, settings.dcgm_url, dcgm.read_page, clock)
            if settings.dcgm_url is not None
            else None
        )
        self._node_page = (
            Target(pages, settings.clock_url, node_page.read_page, clock)
            if settings.clock_url is not None
            else None
        )
        self._network = None if machine is None else machine.network
        self._nvml_gpus: NodeGpus | None = None
        #: Who the engine's processes are is only known from NVML.
        self._handles: HandleWatch | None = None
        if settings.gpus and machine is not None and machine.nvml is not None:
            self._nvml_gpus = NodeGpus(settings.name, settings.gpus, machine.nvml)
            self._handles = HandleWatch(self._nvml_gpus.pids, machine.procfs)
        self._instance = InstanceWatch(settings, wall)
        self._latencies = RecentLatencies()
        self._told: dict[str, bool] = {}

    @property
    def settings(self) -> AgentNodeSettings:
        return self._settings

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
        pages = {
            "engine": self._engine,
            "DCGM exporter": self._dcgm,
            "clock page": self._node_page,
        }
        return {what: page for what, page in pages.items() if page is not None}

    def latencies(self) -> dict[str, Quantiles]:
        """The engine's latencies of the last half minute."""
        return self._latencies.quantiles(self._clock())

    def continue_from(self, former: NodeSampler) -> None:
        """Sample on for one of the same node with other settings; its engine is the same if its
        page is.
        """
        if self._settings.metrics_url == former.settings.metrics_url:
            self._instance.continue_from(former._instance)

    async def close(self) -> None:
        """Let go of its pages."""
        for target in self.pages.values():
            await target.close()

    async def watch(self) -> None:
        """Watch the engine's processes until cancelled, beside the samples."""
        if self._handles is not None:
            await self._handles.run(self.name, self._settings.restart_command, self._instance_id)

    async def read_handles(self) -> None:
        """Look at the engine's processes once."""
        if self._handles is not None:
            await self._handles.read()

    def start(self) -> list[asyncio.Task[None]]:
        """Scrape the pages, unless that is still going on."""
        return [target.start() for target in self.pages.values()]

    def sample(self) -> NodeSample | None:
        """What is known now; None until the engine was up once: who it is is not known before."""
        for what, target in self.pages.items():
            self._tell(what, target)
        if self._instance.see(self._engine.page):
            self._latencies.forget()
        node = self._instance.node
        if node is None:
            return None
        now_s = self._clock()
        page = self._engine.page or EnginePage(EngineSample())
        handles = self._handles.reading if self._handles else HandleReading(UNSUPPORTED)
        return NodeSample(
            node=node,
            engine_up=self._engine.there,
            engine_silent=self._engine.silent,
            gpus=self._gpus(now_s),
            engine=_aged(page.sample, self._engine, now_s),
            net_bytes_per_s=self._network.rate(self._settings.network) if self._network else ABSENT,
            clock_offset_s=self._clock_offset_s(now_s),
            cuda_handles=handles.handles,
            cuda_handles_dropped=handles.dropped,
            by_model=tuple(
                (model, _aged(engine, self._engine, now_s)) for model, engine in page.by_model
            ),
            taken_s=now_s,
            kv_cache_age_s=self._kv_cache_age_s(now_s),
        )

    def _read_engine(self, text: str) -> EnginePage:
        page = detect.read_engine_page(text)
        now_s = self._clock()
        if page.engine and self._latencies.due(now_s):
            self._latencies.take(detect.read_latencies(text), now_s)
        return page

    def _instance_id(self) -> str:
        return self._instance.node.instance_id if self._instance.node else ""

    def _gpus(self, now_s: float) -> tuple[GpuSample, ...]:
        if self._dcgm is not None:
            return self._dcgm_gpus(self._dcgm, now_s)
        if self._nvml_gpus is not None:
            return self._nvml_gpus.sample(now_s)
        return tuple(GpuSample(uuid) for uuid in self.gpus)

    def _dcgm_gpus(
        self, target: Target[tuple[GpuSample, ...]], now_s: float
    ) -> tuple[GpuSample, ...]:
        """The node's GPUs. Of a machine with more than it has, nobody says which they are."""
        gpus = target.page or ()
        if len(gpus) != self._settings.gpu_count:
            return ()
        return tuple(_aged(gpu, target, now_s) for gpu in gpus)

    def _clock_offset_s(self, now_s: float) -> float:
        """The node's clock less this one's; it goes on while its page does not answer. The page was
        made about half-way between the question and the answer.
        """
        target = self._node_page
        if target is None or target.page is None or target.taken_s is None:
            return 0.0
        made_s = target.taken_s + target.took_s / 2.0
        return target.page.wall_s + (now_s - made_s) - self._wall()

    def _kv_cache_age_s(self, now_s: float) -> Signal:
        target = self._node_page
        if target is None or target.page is None:
            return UNSUPPORTED if target is None else ABSENT
        return _age(target.page.kv_cache_age_s, target, now_s)

    def _tell(self, what: str, target: Target[Any]) -> None:
        """Log when a page begins or ceases to answer."""
        if target.page is None and target.error is None:
            return
        if self._told.get(what) == target.good:
            return
        self._told[what] = target.good
        if target.good:
            log.info("%s: the %s answers", self.name, what, extra={"node": self.name})
        else:
            log.warning(
                "%s: the %s fails: %s",
                *(self.name, what, target.error),
                extra={"node": self.name, "reason": target.error},
            )


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
