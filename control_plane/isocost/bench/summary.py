"""The tables at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console
from rich.table import Table

from isocost.bench.comparison import METRICS, Comparison, Ratio
from isocost.bench.progress import number, percent
from isocost.bench.report import ProcessCpu, Report
from isocost.bench.result import FailureKind
from isocost.bench.statistics import Summary

_PROCESSES = 8
#: A generator that is later than this part of the median latency, and later than a scheduler's
#: usual delay, shows in the percentiles.
_LATE_PART, _LATE_MS = 0.1, 20.0


def say(console: Console, text: str, style: str | None = None) -> None:
    """A line as it is: not wrapped, no words coloured."""
    console.print(text, style=style, highlight=False, soft_wrap=True, markup=False)


def print_report(console: Console, report: Report) -> None:
    """Totals, latencies, nodes and phases of one target's run."""
    _print_facts(console, report)
    console.print(latency_table(report))
    if report.faults:
        console.print(_phase_table(report))
    if report.kinds:
        console.print(_kind_table(report))
    if report.nodes:
        console.print(node_table(report))


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Every target's own figures, then the ratios."""
    for name, report in comparison.targets.items():
        say(console, f"{name}: {report.target.url if report.target else '-'}", "bold")
        _print_facts(console, report)
        console.print(latency_table(report))
    console.print(_ratio_table(comparison))


def _print_facts(console: Console, report: Report) -> None:
    for line in _facts(report):
        say(console, line)
    _warn_of_lateness(console, report)
    if report.samples is not None and report.samples.answered < report.samples.asked:
        say(
            console,
            f"WARNING: the control plane answered {report.samples.answered} of "
            f"{report.samples.asked} samples: what it did not tell is missing",
            "bold yellow",
        )


def print_machine(
    console: Console, busy: float | None, valid: bool | None, processes: Iterable[ProcessCpu]
) -> None:
    """How busy the machine was, and by whom where that spoils the figures."""
    say(console, f"machine {percent(busy)} busy")
    if valid is not False:
        return
    say(
        console,
        f"INVALID: the machine was {percent(busy)} busy; the figures above say more about it "
        "than about the target. The busiest processes, in parts of one core:",
        "bold yellow",
    )
    for process in list(processes)[:_PROCESSES]:
        say(console, f"  {percent(process.cpu_fraction):>7}  {process.pid:>7}  {process.name}")


def latency_table(report: Report) -> Table:
    table = _table(("latency, ms",), ("mean", "stdev", "p50", "p90", "p95", "p99", "max"))
    for name, summary, digits in (
        ("first token", report.ttft_ms, 0),
        ("per output token", report.tpot_ms, 1),
        ("whole answer", report.e2e_ms, 0),
    ):
        table.add_row(name, *(number(value, digits) for value in _values(summary)))
    return table


def node_table(report: Report) -> Table:
    table = _table(
        ("node", "rack"),
        ("requests", "share", "weight share", "capacity share", "first token p99, ms"),
    )
    for node in report.nodes:
        table.add_row(
            node.name,
            node.rack or "-",
            str(node.requests),
            percent(node.share),
            percent(node.weight_share),
            percent(node.capacity_share),
            number(node.ttft_p99_ms),
        )
    return table


def listed(counts: Mapping[FailureKind, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _facts(report: Report) -> Iterator[str]:
    requests, goodput, late = report.requests, report.goodput, report.lateness_ms
    yield (
        f"sent {requests.sent}, ok {requests.ok}, failed {requests.failed}, rejected "
        f"{requests.rejected}, retried {number(requests.retried)}; "
        f"{number(report.tokens.output_per_s)} output tokens/s"
    )
    if report.failures:
        yield f"failures: {listed(report.failures)}"
    for kind, example in report.failure_examples.items():
        yield f"  {kind}, the first: {example}"
    if report.tokens.answers_without_usage:
        yield (
            f"answers without usage, whose tokens are not known: "
            f"{report.tokens.answers_without_usage}"
        )
    yield (
        f"goodput {number(goodput.requests_per_s, 1)} requests/s, {percent(goodput.fraction)}; "
        f"imbalance {number(report.imbalance, 2)} (by {report.imbalance_basis or '-'}); "
        f"sent late by p99 {number(late.p99, 1)} ms, at most {number(late.max, 1)} ms"
    )


def _warn_of_lateness(console: Console, report: Report) -> None:
    """One busy core of many does not make the machine busy, and still may be the generator's."""
    late_ms = report.lateness_ms.p99
    # What is not streamed has no first token.
    median_ms = report.e2e_ms.p50 if report.ttft_ms.p50 is None else report.ttft_ms.p50
    if late_ms is None or median_ms is None or late_ms <= max(_LATE_PART * median_ms, _LATE_MS):
        return
    say(
        console,
        f"WARNING: requests were sent up to {number(late_ms)} ms late (p99), which is in the "
        "latencies: this process could not keep up with the rate",
        "bold yellow",
    )


def _phase_table(report: Report) -> Table:
    table = _table(
        ("phase",),
        ("from, s", "to, s", "sent", "failed", "rejected", "TTFT p50, ms", "p99, ms", "failures"),
    )
    for phase in report.phases:
        table.add_row(
            phase.name,
            number(phase.start_s, 1),
            number(phase.end_s, 1),
            str(phase.requests.sent),
            str(phase.requests.failed),
            str(phase.requests.rejected),
            number(phase.ttft_ms.p50),
            number(phase.ttft_ms.p99),
            listed(phase.failures) or "-",
        )
    return table


def _kind_table(report: Report) -> Table:
    table = _table(("kind",), ("requests", "ok", "TTFT p50, ms", "p99, ms", "whole answer p99, ms"))
    for name, kind in report.kinds.items():
        table.add_row(
            name,
            str(kind.requests),
            str(kind.ok),
            number(kind.ttft_ms.p50),
            number(kind.ttft_ms.p99),
            number(kind.e2e_ms.p99),
        )
    return table


def _ratio_table(comparison: Comparison) -> Table:
    table = _table((f"ratio to {comparison.baseline}, 95 % interval",), comparison.ratios)
    for metric in METRICS:
        table.add_row(metric, *(_ratio(of[metric]) for of in comparison.ratios.values()))
    return table


def _ratio(ratio: Ratio) -> str:
    if ratio.ratio is None:
        return f"- ({ratio.reason})"
    high = "no limit" if ratio.high is None else f"{ratio.high:.3f}"
    return f"{ratio.ratio:.3f} ({number(ratio.low, 3)} to {high})"


def _table(texts: Iterable[str], numbers: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in texts:
        table.add_column(title)
    for title in numbers:
        table.add_column(title, justify="right")
    return table


def _values(summary: Summary) -> tuple[float | None, ...]:
    return (
        summary.mean,
        summary.stdev,
        summary.p50,
        summary.p90,
        summary.p95,
        summary.p99,
        summary.max,
    )
