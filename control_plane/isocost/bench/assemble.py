"""From what was measured to the report: joins the generator's results with Envoy's access log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from isocost.bench.access_log import PICKED, LoggedRequest
from isocost.bench.replay import RequestResult
from isocost.bench.report import (
    Filter,
    NodeReport,
    Percentiles,
    Push,
    Report,
    Requests,
    Tokens,
)
from isocost.bench.statistics import Summary, quantile, summarise

_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class WeighedNode:
    """A node of the fleet with its mean weight over the run; None = not known."""

    name: str
    rack: str
    mean_weight: float | None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run left behind; None = not measured."""

    policy: str
    seed: int
    results: tuple[RequestResult, ...]
    log: tuple[LoggedRequest, ...]
    nodes: tuple[WeighedNode, ...]
    push_interval_ms: Percentiles
    wasm_bytes: int | None
    envoy_cpu_s: float | None
    machine_busy: float | None
    versions: Mapping[str, str | None]


def assemble(run: Measurement) -> Report:
    """The report of a run through Envoy."""
    ttft_ms, tpot_ms, e2e_ms = latencies(run.results)
    nodes = node_reports(run.nodes, run.results, run.log)
    return Report(
        policy=run.policy,
        requests=count_requests(run.results, run.log),
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
        e2e_ms=e2e_ms,
        tokens=count_tokens(run.results),
        nodes=nodes,
        imbalance=imbalance(nodes),
        push=Push(run.push_interval_ms, age_at_pick_ms(run.log)),
        filter=Filter(run.wasm_bytes, _cpu_us_per_request(run)),
        seed=run.seed,
        versions=run.versions,
        machine_busy=run.machine_busy,
    )


def count_requests(results: Sequence[RequestResult], log: Sequence[LoggedRequest]) -> Requests:
    """The counts; ``retried`` is unknown without a log."""
    ok = sum(result.ok for result in results)
    rejected = sum(result.status == _TOO_MANY_REQUESTS for result in results)
    return Requests(
        sent=len(results),
        ok=ok,
        failed=len(results) - ok - rejected,
        retried=sum((entry.attempts or 0) > 1 for entry in log) if log else None,
        rejected=rejected,
    )


def latencies(
    results: Iterable[RequestResult],
) -> tuple[Summary | None, Summary | None, Summary | None]:
    """TTFT, TPOT and end-to-end time of the complete answers, in ms."""
    complete = [result for result in results if result.ok]
    return (
        summarise(_known(result.ttft_ms for result in complete)),
        summarise(_known(result.tpot_ms for result in complete)),
        summarise(result.e2e_ms for result in complete),
    )


def count_tokens(results: Sequence[RequestResult]) -> Tokens:
    """Tokens of the complete answers; the rate is over the whole run."""
    complete = [result for result in results if result.ok]
    output = sum(result.output_tokens or 0 for result in complete)
    elapsed_s = max((result.end_s for result in results), default=0.0)
    return Tokens(
        input=sum(result.input_tokens for result in complete),
        output=output,
        output_per_s=output / elapsed_s if elapsed_s > 0 else 0.0,
    )


def node_reports(
    nodes: Sequence[WeighedNode],
    results: Iterable[RequestResult],
    log: Sequence[LoggedRequest],
) -> tuple[NodeReport, ...]:
    """Each node's part of the logged requests, of the weights, and its own TTFT."""
    node_of = {entry.request_id: entry.node for entry in log if entry.request_id is not None}
    ttft_ms: defaultdict[str | None, list[float]] = defaultdict(list)
    for result in results:
        if result.ok and result.ttft_ms is not None and result.request_id is not None:
            ttft_ms[node_of.get(result.request_id)].append(result.ttft_ms)
    requests = Counter(entry.node for entry in log if entry.node is not None)
    weight_of = weight_shares(nodes)
    return tuple(
        NodeReport(
            name=node.name,
            rack=node.rack,
            requests=requests[node.name],
            share=requests[node.name] / requests.total() if requests else None,
            weight_share=weight_of[node.name],
            ttft_p99_ms=percentile(ttft_ms[node.name], 0.99),
        )
        for node in nodes
    )


def weight_shares(nodes: Sequence[WeighedNode]) -> Mapping[str, float | None]:
    """Each node's part of the sum of the weights; unknown where its weight or the sum is."""
    total = sum(_known(node.mean_weight for node in nodes))
    return {
        node.name: node.mean_weight / total if node.mean_weight is not None and total > 0 else None
        for node in nodes
    }


def imbalance(nodes: Iterable[NodeReport]) -> float | None:
    """The largest share / weight share; 1 is perfect. Unknown without both for some node.

    A node without weight is left out: that it gets nothing is the picks' promise, not balance.
    """
    return max(
        (node.share / node.weight_share for node in nodes if node.share and node.weight_share),
        default=None,
    )


def age_at_pick_ms(log: Iterable[LoggedRequest]) -> Percentiles:
    """How old the table was when the filter picked from it."""
    ages_ms = list(_known(entry.table_age_ms for entry in log if entry.reason == PICKED))
    return Percentiles(p50=percentile(ages_ms, 0.50), p99=percentile(ages_ms, 0.99))


def percentile(values: Iterable[float], fraction: float) -> float | None:
    ordered = sorted(values)
    return quantile(ordered, fraction) if ordered else None


def _cpu_us_per_request(run: Measurement) -> float | None:
    if run.envoy_cpu_s is None or not run.results:
        return None
    return run.envoy_cpu_s * 1e6 / len(run.results)


def _known(values: Iterable[float | None]) -> Iterable[float]:
    return (value for value in values if value is not None)
