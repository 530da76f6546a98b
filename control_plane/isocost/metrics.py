"""The control plane's Prometheus metrics. Labels are bounded: nodes of the roster, Envoys that
report, fixed words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True)
class FleetGauges:
    """What is read at the moment of a scrape: per node, per state, per reason, and totals."""

    nodes: Sequence[str]
    #: By gauge, in the order of the nodes; nothing while there is no node.
    columns: Mapping[str, Sequence[float]]
    states: Mapping[str, int]
    #: By signal: nodes by what is known of it (measured, stale, ...).
    signals: Mapping[str, Mapping[str, int]]
    #: By row of the health table: what it finds now, over all nodes and GPUs.
    findings: Mapping[str, int]
    #: By guard: nodes whose numbers it does not believe.
    guards: Mapping[str, int]
    #: Signals that the policy works with and no node tells.
    missing_inputs: Sequence[str]
    decisions: Mapping[str, int]
    #: Changes of state so far, by (from, to, reason): states and reasons are fixed words.
    transitions: Mapping[tuple[str, str, str], int]
    envoys: int
    #: By Envoy: workers that serve, and those that no longer do.
    workers: Mapping[str, tuple[int, int]]
    stale_choices: int
    #: By why they ended.
    answers: Mapping[str, int]
    output_tokens: int
    subscribers: int
    #: By resource type: refusals so far, and streams on which the last content is refused.
    xds_nacks: Mapping[str, int]
    xds_refusing: Mapping[str, int]
    discovery_conflicts: int
    discovery_file_bad: bool


_NODE_GAUGES: Sequence[tuple[str, str]] = (
    ("weight", "Weight in [0,1]."),
    ("entropy", "Entropy; +Inf means never."),
    ("capacity", "Share of the traffic that it should take, relative to the best node, in [0,1]."),
    ("in_flight", "Open requests over all Envoys; NaN while that is not known."),
    ("pending_tokens", "Prompt tokens of open requests without a first token; NaN as above."),
    ("kv_tokens", "Tokens of open requests, expected answers included; NaN as above."),
    ("token_seconds", "Learned seconds per pending prompt token; NaN while not learned."),
    ("share_factor", "Part of its share that the node's state and answers leave it, in [0,1]."),
    ("health", "Part of its share that the node's hardware leaves it, in [0,1]."),
)


class _One(Collector):
    """One family for the writer."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


def _by(label: str, counts: Mapping[str, int], name: str, text: str) -> Metric:
    """A gauge with one label."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for word, count in counts.items():
        family.add_metric([word], count)
    return family


def _families(fleet: FleetGauges) -> Iterator[Metric]:
    for key, text in _NODE_GAUGES:
        family = GaugeMetricFamily(f"isocost_node_{key}", text, labels=["node"])
        for name, value in zip(fleet.nodes, fleet.columns.get(key, ()), strict=True):
            family.add_metric([name], value)
        yield family
    yield _by("state", fleet.states, "isocost_nodes", "Nodes by state.")
    signals = GaugeMetricFamily(
        "isocost_signal_nodes",
        "Nodes by what is known of a signal.",
        labels=["signal", "state"],
    )
    missing = GaugeMetricFamily(
        "isocost_policy_input_missing",
        "1 = the policy works with this signal and no node tells it: a default stands in.",
        labels=["signal"],
    )
    for signal, counts in fleet.signals.items():
        for state, count in counts.items():
            signals.add_metric([signal, state], count)
        missing.add_metric([signal], float(signal in fleet.missing_inputs))
    yield signals
    yield missing
    yield _by(
        "row",
        fleet.findings,
        "isocost_health_findings",
        "What the rows of the health table find, over all nodes and GPUs.",
    )
    yield _by(
        "guard",
        fleet.guards,
        "isocost_guarded_nodes",
        "Nodes whose numbers a guard does not believe, or a part of them.",
    )
    yield _by(
        "reason",
        fleet.decisions,
        "isocost_decisions",
        "How the filters decided, since the start of this process.",
    )
    transitions = CounterMetricFamily(
        "isocost_node_transitions",
        "Changes of node states.",
        labels=["from", "to", "reason"],
    )
    for change, count in fleet.transitions.items():
        transitions.add_metric(list(change), count)
    yield transitions
    yield GaugeMetricFamily("isocost_envoys", "Envoys that report.", value=fleet.envoys)
    live = GaugeMetricFamily(
        "isocost_envoy_workers_live",
        "Workers of an Envoy that have served a request and whose filter is alive.",
        labels=["envoy"],
    )
    missing = GaugeMetricFamily(
        "isocost_envoy_workers_missing",
        "Workers of an Envoy whose filter has failed and was not loaded again.",
        labels=["envoy"],
    )
    for envoy, (live_count, missing_count) in fleet.workers.items():
        live.add_metric([envoy], live_count)
        missing.add_metric([envoy], missing_count)
    yield live
    yield missing
    yield CounterMetricFamily(
        "isocost_stale_choices",
        "Requests whose list named a node that their Envoy's cluster did not have any more.",
        value=fleet.stale_choices,
    )
    answers = CounterMetricFamily(
        "isocost_answers",
        "Answers by why they ended, of those that said so.",
        labels=["finish"],
    )
    for finish, count in fleet.answers.items():
        answers.add_metric([finish], count)
    yield answers
    yield CounterMetricFamily(
        "isocost_output_tokens",
        "Tokens of ended answers: from their usage, else their events.",
        value=fleet.output_tokens,
    )
    yield GaugeMetricFamily("isocost_xds_subscribers", "Open ADS streams.", value=fleet.subscribers)
    nacks = CounterMetricFamily(
        "isocost_xds_nacks", "Responses that a client refused.", labels=["type"]
    )
    for kind, count in fleet.xds_nacks.items():
        nacks.add_metric([kind], count)
    yield nacks
    yield _by(
        "type",
        fleet.xds_refusing,
        "isocost_xds_refusing_streams",
        "ADS streams whose client refused what it was sent; it is not sent again until it changes.",
    )
    yield GaugeMetricFamily(
        "isocost_discovery_conflicts",
        "Node names and addresses that are claimed twice.",
        value=fleet.discovery_conflicts,
    )
    yield GaugeMetricFamily(
        "isocost_discovery_file_error",
        "1 = the discovery file of now cannot be used; the last good list stays.",
        value=fleet.discovery_file_bad,
    )


class ControlPlaneMetrics:
    """One registry per control plane, so that several can live in one process."""

    def __init__(self, read: Callable[[], FleetGauges]) -> None:
        """``read`` is called at each scrape: a tick costs nothing, and a gone node leaves."""
        self._read = read
        self.registry = CollectorRegistry()
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

    async def page(self) -> bytes:
        """All metrics as text, family by family: between two of them the loop can tick."""
        parts = [generate_latest(self.registry)]
        for family in _families(self._read()):
            await asyncio.sleep(0)
            parts.append(generate_latest(_One(family)))
        return b"".join(parts)
