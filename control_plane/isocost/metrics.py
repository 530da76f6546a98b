"""The control plane's Prometheus metrics. Labels are bounded: nodes of the roster, fixed words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True)
class FleetGauges:
    """What is read at the moment of a scrape: per node, per state, per reason, and totals."""

    nodes: Mapping[str, Mapping[str, float]]
    states: Mapping[str, int]
    decisions: Mapping[str, int]
    #: Changes of state so far, by (from, to, reason): states and reasons are fixed words.
    transitions: Mapping[tuple[str, str, str], int]
    envoys: int
    subscribers: int


_NODE_GAUGES: Sequence[tuple[str, str]] = (
    ("weight", "Weight in [0,1]."),
    ("entropy", "Entropy; +Inf means never."),
    ("in_flight", "Open requests over all Envoys."),
    ("share_factor", "Part of its share that the node's state and answers leave it, in [0,1]."),
)


class _FleetCollector(Collector):
    """Reads the fleet at the scrape, so that a tick costs nothing and a gone node leaves."""

    def __init__(self, read: Callable[[], FleetGauges]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        fleet = self._read()
        for key, text in _NODE_GAUGES:
            family = GaugeMetricFamily(f"isocost_node_{key}", text, labels=["node"])
            for name, values in fleet.nodes.items():
                family.add_metric([name], values[key])
            yield family
        states = GaugeMetricFamily("isocost_nodes", "Nodes by state.", labels=["state"])
        for state, count in fleet.states.items():
            states.add_metric([state], count)
        yield states
        reasons = GaugeMetricFamily(
            "isocost_decisions",
            "How the filters decided, since the start of this process.",
            labels=["reason"],
        )
        for reason, count in fleet.decisions.items():
            reasons.add_metric([reason], count)
        yield reasons
        transitions = CounterMetricFamily(
            "isocost_node_transitions",
            "Changes of node states.",
            labels=["from", "to", "reason"],
        )
        for change, count in fleet.transitions.items():
            transitions.add_metric(list(change), count)
        yield transitions
        yield GaugeMetricFamily("isocost_envoys", "Envoys that report.", value=fleet.envoys)
        yield GaugeMetricFamily(
            "isocost_xds_subscribers", "Open ADS streams.", value=fleet.subscribers
        )


class ControlPlaneMetrics:
    """One registry per control plane, so that several can live in one process."""

    def __init__(self, read: Callable[[], FleetGauges]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_FleetCollector(read))
        self.tick_seconds = Histogram(
            "isocost_tick_seconds",
            "Time to score the fleet and publish a table.",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
            registry=self.registry,
        )
        self.tick_errors = Counter(
            "isocost_tick_errors",
            "Ticks that failed; the last table stayed.",
            registry=self.registry,
        )
