"""The table that the demo prints at its end."""

from __future__ import annotations

from rich.console import Console

from isocost.bench.progress import number, percent
from isocost.bench.report import Report
from isocost.bench.statistics import Percentiles
from isocost.bench.summary import latency_table, node_table, say


def print_results(console: Console, report: Report) -> None:
    """Totals, latencies, nodes and freshness of a run."""
    requests = report.requests
    say(
        console,
        f"policy {report.policy or '-'}: sent {requests.sent}, ok {requests.ok}, failed "
        f"{requests.failed}, rejected {requests.rejected}, retried {number(requests.retried)}; "
        f"{number(report.tokens.output_per_s)} output tokens/s",
    )
    console.print(latency_table(report))
    console.print(node_table(report))
    for line in _facts(report):
        say(console, line)
    if report.valid is False:
        say(
            console,
            f"INVALID: the machine was {percent(report.machine_busy)} busy; the figures above "
            "say more about it than about the routing",
            "bold yellow",
        )


def _facts(report: Report) -> tuple[str, ...]:
    return (
        f"largest share / {report.imbalance_basis or '-'} share {number(report.imbalance, 2)}",
        f"push interval {_ms(report.push.interval_ms)}; "
        f"table age at the pick {_ms(report.push.age_at_pick_ms)}",
        f"Envoy CPU {number(report.filter.envoy_cpu_us_per_request)} us/request; filter "
        f"{number(report.filter.wasm_bytes)} bytes; machine {percent(report.machine_busy)} busy",
    )


def _ms(percentiles: Percentiles) -> str:
    return f"p50 {number(percentiles.p50)} ms, p99 {number(percentiles.p99)} ms"
