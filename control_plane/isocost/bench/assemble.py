"""From what was measured to the report: joins the generator's results with Envoy's access log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from isocost.bench.access_log import PICKED, LoggedRequest
from isocost.bench.control_plane import FleetSample
from isocost.bench.goodput import Slo, goodput
from isocost.bench.phases import OrderedFault, count_failures, latencies, phases
from isocost.bench.report import (
    Filter,
    KindReport,
    Lateness,
    ProcessCpu,
    Push,
    Report,
    Requests,
    Samples,
    TargetInfo,
    Tokens,
    TraceInfo,
)
from isocost.bench.result import FailureKind, RequestResult
from isocost.bench.series import node_series, series, steps
from isocost.bench.shares import attributed, imbalance, known_nodes, node_reports
from isocost.bench.statistics import Percentiles, distribution, percentile

#: Enough for a plot of a CDF; more only lengthens the file.
_CDF_POINTS = 200
#: The processes that are named beside the machine's load: the busiest.
_PROCESSES = 20


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run of one target left behind; None or empty = not measured.

    All times are seconds since the run's start. ``nodes`` are those that are known beforehand,
    rack by name; ``samples`` of the control plane may show more. ``processes`` begin with the
    busiest.
    """

    seed: int
    results: tuple[RequestResult, ...]
    versions: Mapping[str, str | None]
    policy: str | None = None
    target: TargetInfo | None = None
    trace: TraceInfo | None = None
    slo: Slo = field(default_factory=Slo)
    log: tuple[LoggedRequest, ...] = ()
    nodes: Mapping[str, str | None] = field(default_factory=dict)
    samples: tuple[FleetSample, ...] = ()
    faults: tuple[OrderedFault, ...] = ()
    push_interval_ms: Percentiles = field(default_factory=Percentiles)
    wasm_bytes: int | None = None
    envoy_cpu_s: float | None = None
    machine_busy: float | None = None
    processes: tuple[ProcessCpu, ...] = ()
    interrupted: bool = False


def assemble(run: Measurement) -> Report:
    """The report of a run."""
    results = attributed(run.results, run.log)
    nodes = known_nodes(run.nodes, run.samples, run.log, results)
    names = [node.name for node in nodes]
    duration_s = run_duration_s(results, run.trace)
    grid = steps(results, duration_s)
    ttft_ms, tpot_ms, e2e_ms = latencies(results)
    reports = node_reports(nodes, results, node_series(names, results, run.samples, grid))
    ratio, basis = imbalance(nodes, {node.name: node.share for node in reports})
    return Report(
        policy=run.policy,
        target=run.target,
        trace=run.trace,
        requests=count_requests(results, run.log),
        failures=count_failures(results),
        failure_examples=failure_examples(results),
        ttft_ms=ttft_ms,
        tpot_ms=tpot_ms,
        e2e_ms=e2e_ms,
        ttft_cdf=distribution(
            (result.ttft_ms for result in results if result.ok and result.ttft_ms is not None),
            _CDF_POINTS,
        ),
        lateness_ms=lateness_ms(results),
        tokens=count_tokens(results, duration_s),
        slo=run.slo,
        goodput=goodput(results, run.slo, duration_s),
        nodes=reports,
        imbalance=ratio,
        imbalance_basis=basis,
        kinds=kind_reports(results),
        faults=run.faults,
        phases=phases(results, run.faults, names, duration_s),
        series=series(results, grid),
        push=Push(run.push_interval_ms, age_at_pick_ms(run.log)),
        filter=Filter(run.wasm_bytes, _cpu_us_per_request(run)),
        samples=_count_samples(run.samples),
        seed=run.seed,
        versions=run.versions,
        machine_busy=run.machine_busy,
        processes=run.processes[:_PROCESSES],
        interrupted=run.interrupted,
    )


def run_duration_s(results: Iterable[RequestResult], trace: TraceInfo | None) -> float:
    """From the start to the last answer's end, and never less than the trace lasts."""
    last_end_s = max((result.end_s for result in results), default=0.0)
    return last_end_s if trace is None else max(last_end_s, trace.duration_s)


def count_requests(results: Sequence[RequestResult], log: Sequence[LoggedRequest]) -> Requests:
    """The counts; ``retried`` is unknown without a log."""
    ok = sum(result.ok for result in results)
    rejected = sum(result.rejected for result in results)
    return Requests(
        sent=len(results),
        ok=ok,
        failed=len(results) - ok - rejected,
        retried=sum((entry.attempts or 0) > 1 for entry in log) if log else None,
        rejected=rejected,
    )


def failure_examples(results: Iterable[RequestResult]) -> dict[FailureKind, str]:
    """What was said about the first failure of each kind, where anything was."""
    examples: dict[FailureKind, str] = {}
    for result in results:
        if result.failure is not None and result.failure not in examples:
            status = None if result.status in {None, 200} else f"HTTP {result.status}"
            text = " ".join(filter(None, (status, result.detail)))
            if text:
                examples[result.failure] = text
    return examples


def lateness_ms(results: Iterable[RequestResult]) -> Lateness:
    """How late the generator was."""
    late_ms = [(result.sent_s - result.scheduled_s) * 1e3 for result in results]
    return Lateness(
        p50=percentile(late_ms, 0.50),
        p99=percentile(late_ms, 0.99),
        max=max(late_ms, default=None),
    )


def count_tokens(results: Iterable[RequestResult], duration_s: float) -> Tokens:
    """Tokens of the complete answers."""
    complete = [result for result in results if result.ok]
    stated = [result.output_tokens for result in complete if result.output_tokens is not None]
    output = sum(stated) if stated else None
    return Tokens(
        input=sum(result.input_tokens for result in complete),
        output=output,
        output_per_s=output / duration_s if output is not None and duration_s > 0 else None,
        answers_without_usage=len(complete) - len(stated),
    )


def kind_reports(results: Iterable[RequestResult]) -> dict[str, KindReport]:
    """A report for each class of requests that the trace names, by name."""
    groups: defaultdict[str, list[RequestResult]] = defaultdict(list)
    for result in results:
        if result.kind is not None:
            groups[result.kind].append(result)
    reports = {}
    for kind, group in sorted(groups.items()):
        ttft_ms, tpot_ms, e2e_ms = latencies(group)
        ok = sum(result.ok for result in group)
        reports[kind] = KindReport(len(group), ok, ttft_ms, tpot_ms, e2e_ms)
    return reports


def age_at_pick_ms(log: Iterable[LoggedRequest]) -> Percentiles:
    """How old the table was when the filter picked from it."""
    ages_ms = [
        entry.table_age_ms
        for entry in log
        if entry.reason == PICKED and entry.table_age_ms is not None
    ]
    return Percentiles(p50=percentile(ages_ms, 0.50), p99=percentile(ages_ms, 0.99))


def _count_samples(samples: Sequence[FleetSample]) -> Samples | None:
    if not samples:
        return None
    return Samples(len(samples), sum(sample.nodes is not None for sample in samples))


def _cpu_us_per_request(run: Measurement) -> float | None:
    if run.envoy_cpu_s is None or not run.results:
        return None
    return run.envoy_cpu_s * 1e6 / len(run.results)
