"""The control plane's Prometheus metrics. Labels are bounded: nodes of the roster, a hundred of the
Envoys that report, fixed words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from isocost.config import ControlPlaneConfig
from isocost.daemon_metrics import DaemonMetrics
from isocost.reload import Reload

#: An Envoy chooses its name itself: so many have series of their own, and those whose names are no
#: longer than a node's may be.
MOST_ENVOYS = 100
OTHER_ENVOYS = "other"
_LONGEST_NAME = 128


@dataclass(frozen=True)
class SourceGauges:
    """A list of nodes; NaN before its first answer."""

    nodes: float
    age_s: float
    error: bool
    held: int
    refused: int


class NodeStanding(NamedTuple):
    """Where a node is and how it stands; state and reason are fixed words."""

    rack: str
    state: str
    reason: str


@dataclass(frozen=True)
class DiscoveryGauges:
    """How discovery is. Sources are named in the configuration: there are few."""

    sources: Mapping[str, SourceGauges]
    conflicts: int
    unresolved: int
    stale_names: int
    unreachable: int


@dataclass(frozen=True)
class FleetGauges:
    """What is read at the moment of a scrape: per node, per state, per reason, and totals."""

    nodes: Sequence[str]
    #: By gauge or counter, in the order of the nodes; nothing while there is no node.
    columns: Mapping[str, Sequence[float]]
    #: In the order of the nodes.
    standings: Sequence[NodeStanding]
    states: Mapping[str, int]
    #: By signal: nodes by what is known of it (measured, stale, ...).
    signals: Mapping[str, Mapping[str, int]]
    #: By row of the health table: what it finds now, over all nodes and GPUs.
    findings: Mapping[str, int]
    #: By guard: nodes whose numbers it does not believe.
    guards: Mapping[str, int]
    #: Signals that the policy works with and no node tells.
    missing_inputs: Sequence[str]
    policy: str
    decisions: Mapping[str, int]
    #: Changes of state so far, by (from, to, reason): states and reasons are fixed words.
    transitions: Mapping[tuple[str, str, str], int]
    envoys: int
    #: By Envoy: workers that serve, and those that no longer do.
    workers: Mapping[str, tuple[int, int]]
    #: By resource type, so far, and clients that refuse the one they were sent last.
    nacks: Mapping[str, int]
    refusing: Mapping[str, int]
    invalid_streams: int
    stale_choices: int
    #: By why they ended.
    answers: Mapping[str, int]
    output_tokens: int
    subscribers: int
    #: When the last table was built; None before the first.
    table_unix_s: float | None
    #: By quantile; empty before any client had two tables.
    push_interval_s: Mapping[str, float]
    discovery: DiscoveryGauges


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
    ("first_byte_seconds", "Mean time to the first byte at the gateways; NaN before any."),
    ("output_token_seconds", "Mean time per output token at the gateways; NaN before any."),
    ("sample_age_seconds", "Age of its agent's last report; NaN without an agent."),
)
#: Of what the gateways saw since the node was first seen. A family each, and not one with a label:
#: a family is written at once, and holds the loop up as long as it is large.
_NODE_COUNTERS: Sequence[tuple[str, str]] = (
    ("requests", "Requests that the gateways sent to it."),
    ("good_answers", "Answers that did not fail; 4xx are the client's."),
    ("failures", "5xx, resets and refused connections, also where a retry hid them."),
    ("rate_limited", "Requests that it answered with 429."),
)


def bounded(workers: Mapping[str, tuple[int, int]]) -> Mapping[str, tuple[int, int]]:
    """By Envoy, as far as there may be series of them; the others are summed under one name."""
    result: dict[str, tuple[int, int]] = {}
    for envoy in sorted(workers):
        listed = len(result) < MOST_ENVOYS and len(envoy) <= _LONGEST_NAME
        name = envoy if listed else OTHER_ENVOYS
        live, missing = result.get(name, (0, 0))
        result[name] = live + workers[envoy][0], missing + workers[envoy][1]
    return result


class _One(Collector):
    """One family for the writer."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


def _by(label: str, counts: Mapping[str, float], name: str, text: str) -> Metric:
    """A gauge with one label."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for word, count in counts.items():
        family.add_metric([word], count)
    return family


def _families(fleet: FleetGauges) -> Iterator[Metric]:
    yield from _of_nodes(fleet)
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
    policy = GaugeMetricFamily("isocost_policy_info", "1, with the policy.", labels=["policy"])
    policy.add_metric([fleet.policy], 1.0)
    yield policy
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
    if fleet.table_unix_s is not None:
        yield GaugeMetricFamily(
            "isocost_table_timestamp_seconds",
            "When the last table was built, in unix seconds.",
            value=fleet.table_unix_s,
        )
    yield _by(
        "quantile",
        fleet.push_interval_s,
        "isocost_push_interval_seconds",
        "Time between two tables of one client, over the last ones of all that are connected.",
    )
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
    for envoy, (live_count, missing_count) in bounded(fleet.workers).items():
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
    yield _by(
        "type",
        fleet.refusing,
        "isocost_xds_refusing",
        "Clients that refuse the resources of a type that they were sent last.",
    )
    nacks = CounterMetricFamily(
        "isocost_xds_nacks", "Refusals by clients, by type of resource.", labels=["type"]
    )
    for type_name, count in fleet.nacks.items():
        nacks.add_metric([type_name], count)
    yield nacks
    yield CounterMetricFamily(
        "isocost_xds_invalid_streams",
        "ADS streams that were closed because they asked for what is not served.",
        value=fleet.invalid_streams,
    )
    yield from _discovery(fleet.discovery)


def _of_nodes(fleet: FleetGauges) -> Iterator[Metric]:
    kinds = ((GaugeMetricFamily, _NODE_GAUGES), (CounterMetricFamily, _NODE_COUNTERS))
    for kind, metrics in kinds:
        for key, text in metrics:
            family = kind(f"isocost_node_{key}", text, labels=["node"])
            for name, value in zip(fleet.nodes, fleet.columns.get(key, ()), strict=True):
                family.add_metric([name], value)
            yield family
    standing = GaugeMetricFamily(
        "isocost_node_state",
        "1, with the state that the node is in and the reason.",
        labels=["node", *NodeStanding._fields],
    )
    for name, now in zip(fleet.nodes, fleet.standings, strict=True):
        standing.add_metric([name, *now], 1.0)
    yield standing


def _discovery(discovery: DiscoveryGauges) -> Iterator[Metric]:
    sources = discovery.sources
    for name, text, values in (
        (
            "source_nodes",
            "Nodes on the source's last list; NaN before its first.",
            {key: source.nodes for key, source in sources.items()},
        ),
        (
            "source_age_seconds",
            "Time since that list was last known to be current; NaN before its first.",
            {key: source.age_s for key, source in sources.items()},
        ),
        (
            "source_error",
            "1 = the source cannot be used now; its last good list stays.",
            {key: float(source.error) for key, source in sources.items()},
        ),
        (
            "held_nodes",
            "Nodes that the source says are lost, and that is not believed.",
            {key: float(source.held) for key, source in sources.items()},
        ),
        (
            "refused_entries",
            "Entries of the source's last list that cannot be used.",
            {key: float(source.refused) for key, source in sources.items()},
        ),
    ):
        yield _by("source", values, f"isocost_discovery_{name}", text)
    for name, text, count in (
        ("conflicts", "Node names and addresses that are claimed twice.", discovery.conflicts),
        (
            "unresolved_nodes",
            "Nodes that are not in the roster because their names have no IP address.",
            discovery.unresolved,
        ),
        (
            "stale_names",
            "Names that cannot be resolved now; their last good addresses stay.",
            discovery.stale_names,
        ),
        (
            "unreachable_nodes",
            "Nodes without an agent that refuse the control plane's connections.",
            discovery.unreachable,
        ),
    ):
        yield GaugeMetricFamily(f"isocost_discovery_{name}", text, value=count)


class ControlPlaneMetrics:
    """One registry per control plane, so that several can live in one process."""

    def __init__(self, read: Callable[[], FleetGauges], reload: Reload[ControlPlaneConfig]) -> None:
        """``read`` is called at each scrape: a tick costs nothing, and a gone node leaves."""
        self._read = read
        self.registry = CollectorRegistry()
        DaemonMetrics(self.registry, reload)
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
