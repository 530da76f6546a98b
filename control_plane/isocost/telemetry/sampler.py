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
from isocost.model import ABSENT, EngineSample, GpuSample, Node, NodeSample, Signal, SignalState
from isocost.telemetry import clock as clock_page
from isocost.telemetry.engines import dcgm, detect
from isocost.telemetry.engines.counter import fell
from isocost.telemetry.engines.page import EnginePage
from isocost.telemetry.nvml.process import Nvml
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
        nvml: Nvml | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._engine = Target(session, settings.metrics_url, detect.read_engine_page, clock)
        self._dcgm = (
            Target(session, settings.dcgm_url, dcgm.read_page, clock)
            if settings.dcgm_url is not None
            else None
        )
        self._own_clock = (
            Target(session, settings.clock_url, clock_page.read_page, clock)
            if settings.clock_url is not None
            else None
        )
        self._nvml = nvml
        self._seen: EnginePage | None = None
        #: What the instance's counters last said: a page may lack them for a while.
        self._counters = dict.fromkeys(_COUNTERS, ABSENT)
        self._engine_kind = ""
        self._epoch: int | None = None
        self._node: Node | None = None
        self._told: dict[str, bool] = {}
        #: Of the node's GPUs, those that NVML does not list.
        self._missing: set[str] = set()

    def start(self) -> list[asyncio.Task[None]]:
        """Scrape the pages, unless that is still going on."""
        targets: list[Target[Any] | None] = [self._engine, self._dcgm, self._own_clock]
        return [target.start() for target in targets if target is not None]

    def sample(self) -> NodeSample | None:
        """What is known now; None until the engine was up once: who it is is not known before."""
        self._tell("engine", self._engine)
        if self._dcgm is not None:
            self._tell("DCGM exporter", self._dcgm)
        if self._own_clock is not None:
            self._tell("clock page", self._own_clock)
        node = self._identify()
        if node is None:
            return None
        now_s = self._clock()
        engine = EngineSample()
        if self._engine.page is not None:
            engine = _aged(self._engine.page.sample, self._engine, now_s)
        return NodeSample(
            node=node,
            engine_up=self._engine.there,
            engine=engine,
            gpus=self._nvml_gpus() if self._dcgm is None else self._dcgm_gpus(self._dcgm, now_s),
            clock_offset_s=self._clock_offset_s(now_s),
        )

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

    def _dcgm_gpus(
        self, target: Target[tuple[GpuSample, ...]], now_s: float
    ) -> tuple[GpuSample, ...]:
        """The node's GPUs. Of a machine with more than it has, nobody says which they are."""
        gpus = target.page or ()
        if len(gpus) != self._settings.gpu_count:
            return ()
        return tuple(_aged(gpu, target, now_s) for gpu in gpus)

    def _clock_offset_s(self, now_s: float) -> float:
        """The node's clock less this one's; it goes on while its page does not answer."""
        target = self._own_clock
        if target is None or target.page is None or target.taken_s is None:
            return 0.0
        return target.page + (now_s - target.taken_s) - self._wall()

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
