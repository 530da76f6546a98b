"""The table that the demo prints at its end."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from isocost.bench.report import Percentiles, Report
from isocost.demo.display import number, percent


def print_results(console: Console, report: Report) -> None:
    """Totals, latencies, nodes and freshness of a run."""
    requests = report.requests
    console.print(
        f"policy {report.policy}: sent {requests.sent}, ok {requests.ok}, failed "
        f"{requests.failed}, rejected {requests.rejected}, retried {number(requests.retried)}; "
        f"{number(report.tokens.output_per_s)} output tokens/s",
        highlight=False,
        soft_wrap=True,
    )
    console.print(_latencies(report))
    console.print(_nodes(report))
    for line in _facts(report):
        console.print(line, highlight=False, soft_wrap=True)
    if report.valid is False:
        console.print(
            f"INVALID: the machine was {percent(report.machine_busy)} busy; the figures above "
            "say more about it than about the routing",
            style="bold yellow",
            soft_wrap=True,
        )


def _latencies(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("latency, ms")
    for title in ("mean", "stdev", "p50", "p90", "p95", "p99", "max"):
        table.add_column(title, justify="right")
    for name, summary, digits in (
        ("first token", report.ttft_ms, 0),
        ("per output token", report.tpot_ms, 1),
        ("whole answer", report.e2e_ms, 0),
    ):
        values = (
            (None,) * 7
            if summary is None
            else (
                summary.mean,
                summary.stdev,
                summary.p50,
                summary.p90,
                summary.p95,
                summary.p99,
                summary.max,
            )
        )
        table.add_row(name, *(number(value, digits) for value in values))
    return table


def _nodes(report: Report) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("node", "rack"):
        table.add_column(title)
    for title in ("requests", "share", "weight share", "first token p99, ms"):
        table.add_column(title, justify="right")
    for node in report.nodes:
        table.add_row(
            node.name,
            node.rack,
            str(node.requests),
            percent(node.share),
            percent(node.weight_share),
            number(node.ttft_p99_ms),
        )
    return table


def _facts(report: Report) -> tuple[str, ...]:
    return (
        f"largest share / weight share {number(report.imbalance, 2)}",
        f"push interval {_ms(report.push.interval_ms)}; "
        f"table age at the pick {_ms(report.push.age_at_pick_ms)}",
        f"Envoy CPU {number(report.filter.envoy_cpu_us_per_request)} us/request; filter "
        f"{number(report.filter.wasm_bytes)} bytes; machine {percent(report.machine_busy)} busy",
    )


def _ms(percentiles: Percentiles) -> str:
    return f"p50 {number(percentiles.p50)} ms, p99 {number(percentiles.p99)} ms"
