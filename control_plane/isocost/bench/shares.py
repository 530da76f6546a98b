"""Which node answered which request, and how even that was against what each node can take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from isocost.bench.access_log import LoggedRequest
from isocost.bench.control_plane import FleetSample, NodeStatus
from isocost.bench.result import RequestResult
from isocost.bench.series import NodeSeries
from isocost.bench.statistics import percentile

Basis = Literal["weight", "capacity", "equal"]


@dataclass(frozen=True, slots=True)
class WeighedNode:
    """A node of the fleet with its mean weight over the run and its capacity in any unit that all
    nodes share; None = not known."""

    name: str
    rack: str | None
    mean_weight: float | None
    capacity: float | None = None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node: its part of the answered requests beside its parts of weights and capacities.

    ``share`` is of the requests whose node is known.
    """

    name: str
    rack: str | None
    requests: int
    share: float | None
    weight_share: float | None
    capacity_share: float | None
    ttft_p99_ms: float | None
    series: NodeSeries


def attributed(
    results: Iterable[RequestResult], log: Iterable[LoggedRequest]
) -> tuple[RequestResult, ...]:
    """The results with the node that took each: the gateway's log knows also of those that were
    not answered, and where it says nothing the node's own word counts."""
    node_of = {
        entry.request_id: entry.node
        for entry in log
        if entry.request_id is not None and entry.node is not None
    }
    return tuple(
        replace(result, node=node_of.get(result.request_id or "", result.node))
        for result in results
    )


def known_nodes(
    listed: Mapping[str, str | None],
    samples: Sequence[FleetSample],
    log: Iterable[LoggedRequest],
    results: Sequence[RequestResult],
) -> tuple[WeighedNode, ...]:
    """Every node of the run: the ``listed`` ones (rack by name), then those that the control plane
    showed, then those that only answered, each by name.

    A weight is the mean of the samples taken while requests were sent.
    """
    latest: dict[str, NodeStatus] = {}
    weights: defaultdict[str, list[float]] = defaultdict(list)
    last_s = max((result.scheduled_s for result in results), default=0.0)
    for sample in samples:
        for status in sample.nodes or ():
            latest[status.name] = status
            if status.weight is not None and sample.at_s <= last_s:
                weights[status.name].append(status.weight)
    answered: dict[str, str | None] = {
        result.node: None for result in results if result.node is not None
    }
    for entry in log:
        if entry.node in answered:
            answered[entry.node] = entry.rack
    racks = {
        **answered,
        **{name: latest[name].rack for name in latest},
        **listed,
    }
    sampled = sorted(latest.keys() - listed.keys())
    silent = sorted(answered.keys() - listed.keys() - latest.keys())
    return tuple(
        WeighedNode(
            name,
            racks[name],
            fmean(weights[name]) if weights[name] else None,
            latest[name].capacity if name in latest else None,
        )
        for name in (*listed, *sampled, *silent)
    )


def node_reports(
    nodes: Sequence[WeighedNode],
    results: Iterable[RequestResult],
    series: Mapping[str, NodeSeries],
) -> tuple[NodeReport, ...]:
    """Each node's part of the attributed ``results`` and of what it is due, and its own TTFT."""
    taken: dict[str, list[RequestResult]] = {node.name: [] for node in nodes}
    for result in results:
        if result.node is not None:
            taken[result.node].append(result)
    total = sum(map(len, taken.values()))
    weight_of = parts({node.name: node.mean_weight for node in nodes})
    capacity_of = parts({node.name: node.capacity for node in nodes})
    return tuple(
        NodeReport(
            name=node.name,
            rack=node.rack,
            requests=len(taken[node.name]),
            share=len(taken[node.name]) / total if total else None,
            weight_share=weight_of[node.name],
            capacity_share=capacity_of[node.name],
            ttft_p99_ms=percentile(
                (r.ttft_ms for r in taken[node.name] if r.ok and r.ttft_ms is not None), 0.99
            ),
            series=series[node.name],
        )
        for node in nodes
    )


def parts(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Each value's part of the sum; unknown where the value is, or where the sum is 0."""
    total = sum(value for value in values.values() if value is not None)
    return {
        name: value / total if value is not None and total > 0 else None
        for name, value in values.items()
    }


def imbalance(
    nodes: Sequence[WeighedNode], share_of: Mapping[str, float | None]
) -> tuple[float | None, Basis | None]:
    """The largest share / due share, 1 = perfect, and what is due: a part of the capacities
    where every node's is known, else of the weights where every node's is, else the same for all.

    A node to which nothing is due is left out: that it gets nothing is the picks' promise, not
    balance. None = there are no nodes, or no request whose node is known.
    """
    if not nodes:
        return None, None
    basis, due = _due(nodes)
    ratios = [
        share / due[name] for name, share in share_of.items() if share is not None and due[name] > 0
    ]
    return max(ratios, default=None), basis


def _due(nodes: Sequence[WeighedNode]) -> tuple[Basis, dict[str, float]]:
    """The share that each node is due, by the best basis that there is."""
    bases: tuple[tuple[Basis, dict[str, float | None]], ...] = (
        ("capacity", {node.name: node.capacity for node in nodes}),
        ("weight", {node.name: node.mean_weight for node in nodes}),
    )
    for basis, values in bases:
        due = {name: part for name, part in parts(values).items() if part is not None}
        if len(due) == len(nodes):
            return basis, due
    return "equal", {node.name: 1 / len(nodes) for node in nodes}
