"""The agent's Prometheus metrics. A signal that is not known, or is old, has no series: it is not
zero, and ``isocost_agent_signals`` says in which state it is instead.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from isocost.config import AgentConfig
from isocost.daemon_metrics import DaemonMetrics
from isocost.model import NodeSample, Signal
from isocost.reload import Reload
from isocost.telemetry.nvml.process import Gpu, Nvml
from isocost.telemetry.sampler import NodeSampler
from isocost.telemetry.uplink import Uplink

#: NVML's own counters: they wrap and begin anew, as counters do.
_COUNTERS = frozenset(
    {
        "pcie_replays",
        "ecc_corrected",
        "ecc_uncorrected",
        "ecc_uncorrected_ever",
        "rows_remapped_corrected",
        "rows_remapped_uncorrected",
        "prompt_tokens_total",
        "generation_tokens_total",
        "steps_total",
        "nvlink_crc_flit_errors",
        "nvlink_crc_data_errors",
        "nvlink_replays",
        "nvlink_recoveries",
    }
)
_LINK_ERRORS = ("crc_flit_errors", "crc_data_errors", "replays", "recoveries")
#: A stale value is shown no longer than this.
SHOWN_S = 5.0
#: An agent that ends takes no more questions.
_PATIENCE_S = 2.0
_QUANTILES = (("p50", "0.5"), ("p99", "0.99"))


class AgentMetrics(Collector):
    """One registry per agent; what it reads is read at the scrape. Made in the agent's loop."""

    def __init__(
        self,
        samplers: Sequence[NodeSampler],
        nvml: Nvml | None,
        uplink: Uplink,
        reload: Reload[AgentConfig],
    ) -> None:
        self.follow(samplers, nvml)
        self._uplink = uplink
        self._loop = asyncio.get_running_loop()
        #: Of the last tick.
        self.samples: tuple[NodeSample, ...] = ()
        self.registry = CollectorRegistry()
        self.interval_seconds = Histogram(
            "isocost_agent_interval_seconds",
            "Time between two samples.",
            buckets=(0.19, 0.2, 0.21, 0.22, 0.25, 0.3, 0.5, 1.0),
            registry=self.registry,
        )
        DaemonMetrics(self.registry, reload)
        self.registry.register(self)

    def follow(self, samplers: Sequence[NodeSampler], nvml: Nvml | None) -> None:
        """Show these from now on."""
        self._samplers, self._nvml = tuple(samplers), nvml

    def describe(self) -> Iterator[Metric]:
        """Nothing is read before a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Called in the server's thread: what changes in the loop is read there."""
        reading = asyncio.run_coroutine_threadsafe(self._read(), self._loop)
        return iter(reading.result(_PATIENCE_S))

    async def _read(self) -> list[Metric]:
        gpus = self._nvml.gpus() if self._nvml else ()
        return [*self._agent(), *self._nodes(), *self._gpus(gpus)]

    def _agent(self) -> Iterator[Metric]:
        uplink = self._uplink
        yield GaugeMetricFamily(
            "isocost_agent_connected",
            "1 = the control plane takes reports.",
            value=uplink.connected,
        )
        yield CounterMetricFamily(
            "isocost_agent_reports", "Reports that were sent.", value=uplink.reports_total
        )
        yield CounterMetricFamily(
            "isocost_agent_streams_lost",
            "Streams to the control plane that ended or did not begin.",
            value=uplink.lost_total,
        )
        if self._nvml is not None:
            starts = CounterMetricFamily(
                "isocost_agent_reader_starts",
                "Processes that were started to read GPUs.",
                labels=["loop"],
            )
            for name, loop in (("load", self._nvml.load), ("condition", self._nvml.condition)):
                starts.add_metric([name], loop.starts)
            yield starts
        failures = CounterMetricFamily(
            "isocost_agent_scrape_failures", "Pages that did not come.", labels=["node", "page"]
        )
        for sampler in self._samplers:
            for page, target in sampler.pages.items():
                failures.add_metric([sampler.name, page], target.failures_total)
        yield failures

    def _nodes(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("isocost_engine_up", "1 = the engine answers.", labels=["node"])
        dropped = GaugeMetricFamily(
            "isocost_node_cuda_handles_dropped",
            "1 = a process of the engine that lives has lost half of its CUDA handles.",
            labels=["node"],
        )
        signals = _Signals("node", ["node"])
        engine = _Signals("engine", ["node"])
        states: collections.Counter[tuple[str, str]] = collections.Counter()
        for sample in self.samples:
            name = sample.node.name
            up.add_metric([name], sample.engine_up)
            dropped.add_metric([name], sample.cuda_handles_dropped)
            signals.add([name], sample)
            engine.add([name], sample.engine)
            for part in (sample, sample.engine, *sample.gpus):
                _count_states(states, part)
            for gpu in sample.gpus:
                if gpu.health is not None:
                    _count_states(states, gpu.health)
        yield up
        yield dropped
        yield from signals.families()
        yield from engine.families()
        yield self._latencies()
        counts = GaugeMetricFamily(
            "isocost_agent_signals",
            "Signals of the reported nodes and GPUs by what is known of them.",
            labels=["signal", "state"],
        )
        for (signal, state), count in sorted(states.items()):
            counts.add_metric([signal, state], count)
        yield counts

    def _latencies(self) -> Metric:
        family = GaugeMetricFamily(
            "isocost_engine_latency_seconds",
            "Latencies of the last half minute by the engine's histograms.",
            labels=["node", "latency", "quantile"],
        )
        for sampler in self._samplers:
            for latency, quantiles in sampler.latencies().items():
                for field, quantile in _QUANTILES:
                    signal: Signal = getattr(quantiles, field)
                    if signal.known:
                        family.add_metric([sampler.name, latency, quantile], signal.value)
        return family

    def _gpus(self, gpus: Sequence[Gpu]) -> Iterator[Metric]:
        nodes = {uuid: sampler.name for sampler in self._samplers for uuid in sampler.gpus}
        lost = GaugeMetricFamily(
            "isocost_gpu_lost", "1 = off the bus, or to be reset.", labels=["node", "gpu"]
        )
        signals = _Signals("gpu", ["node", "gpu"])
        links = GaugeMetricFamily(
            "isocost_gpu_nvlink_active",
            "1 = the NVLink is up.",
            labels=["node", "gpu", "link", "remote"],
        )
        errors = CounterMetricFamily(
            "isocost_gpu_nvlink_errors",
            "Errors of an NVLink since the driver was loaded.",
            labels=["node", "gpu", "link", "error"],
        )
        xids = GaugeMetricFamily(
            "isocost_gpu_xids", "Xids of the last ten minutes.", labels=["node", "gpu", "xid"]
        )
        for gpu in gpus:
            uuid = gpu.identity.uuid
            labels = [nodes.get(uuid, ""), uuid]
            lost.add_metric(labels, gpu.lost)
            for xid in gpu.xids:
                xids.add_metric([*labels, str(xid.number)], xid.count)
            signals.add(labels, gpu.load)
            if gpu.condition is None:
                continue
            signals.add(labels, gpu.condition)
            for link in gpu.condition.links:
                number = str(link.link)
                if _shown(link.active):
                    links.add_metric([*labels, number, link.remote_pci_bus_id], link.active.value)
                for error in _LINK_ERRORS:
                    count: Signal = getattr(link, error)
                    if _shown(count):
                        errors.add_metric([*labels, number, error], count.value)
        listed = {gpu.identity.uuid for gpu in gpus}
        for sample in self.samples:
            for told in sample.gpus:
                if told.lost and told.uuid not in listed:
                    lost.add_metric([sample.node.name, told.uuid], 1.0)
        yield lost
        yield from signals.families()
        yield links
        yield errors
        yield xids


class _Signals:
    """A family for each signal of some dataclasses."""

    def __init__(self, of: str, labels: Sequence[str]) -> None:
        self._of = of
        self._labels = labels
        self._families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}

    def add(self, labels: Sequence[str], holder: object) -> None:
        for name, signal in _signals(holder).items():
            family = self._families.get(name)
            if family is None:
                kind = CounterMetricFamily if name in _COUNTERS else GaugeMetricFamily
                text = f"{name.replace('_', ' ')}, as in `isocost agent --once --json`."
                family = kind(
                    f"isocost_{self._of}_{name.removeprefix(f'{self._of}_')}",
                    text.capitalize(),
                    labels=self._labels,
                )
                self._families[name] = family
            if _shown(signal):
                family.add_metric(labels, signal.value)

    def families(self) -> Iterator[Metric]:
        yield from self._families.values()


def _shown(signal: Signal) -> bool:
    """A number without an age must be of now."""
    return signal.known and signal.age_s <= SHOWN_S


def _signals(holder: object) -> Mapping[str, Signal]:
    values = {
        field.name: getattr(holder, field.name)
        for field in dataclasses.fields(holder)  # type: ignore[arg-type]
    }
    return {name: value for name, value in values.items() if isinstance(value, Signal)}


def _count_states(states: collections.Counter[tuple[str, str]], holder: object) -> None:
    states.update((name, signal.state.name.lower()) for name, signal in _signals(holder).items())
