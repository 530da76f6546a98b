"""Tables with a row per node."""

from __future__ import annotations

from isocost.bench.page.read import Data, at, expected_shares, items, known, real, series, text
from isocost.bench.page.text import count, number, percent, printable, ratio, signed
from isocost.bench.page.view import Table


def nodes_table(report: Data) -> Table:
    """Each node's part and latency and, with a control plane, how fresh and how true its telemetry
    was."""
    nodes = items(report, "nodes")
    rows = []
    for node, expected in zip(nodes, expected_shares(report), strict=True):
        share = real(node, "share")
        rows.append(
            (
                printable(at(node, "name")),
                printable(at(node, "rack")),
                count(real(node, "requests")),
                percent(share),
                percent(expected),
                ratio(share / expected if share is not None and expected else None),
                number(real(node, "ttft_p99_ms")),
            )
        )
    head = ("Node", "Rack", "Requests", "Share", "Expected", "Share / expected", "TTFT p99, ms")
    seen = [(_largest(node, "sample_age_s"), _largest(node, "clock_offset_ms")) for node in nodes]
    if not any(value is not None for pair in seen for value in pair):
        return Table("Nodes", head, rows, names=2)
    return Table(
        "Nodes; the last two columns are the run's largest",
        (*head, "Oldest sample, s", "Clock off by, ms"),
        [
            (*row, number(age_s), signed(offset_ms))
            for row, (age_s, offset_ms) in zip(rows, seen, strict=True)
        ],
        names=2,
    )


def _largest(node: Data, name: str) -> float | None:
    """Of a node's series, the value furthest from 0."""
    return max(known(series(node, f"series.{name}")), key=abs, default=None)


def phase_nodes_table(report: Data) -> Table | None:
    """Requests and median TTFT by node and phase; None where one phase is all there is."""
    phases = items(report, "phases")
    by_phase = [{text(node, "name"): node for node in items(phase, "nodes")} for phase in phases]
    names = list(dict.fromkeys(name for nodes in by_phase for name in nodes))
    if len(phases) < 2 or not names:
        return None
    rows = [(printable(name), *(_cell(nodes.get(name)) for nodes in by_phase)) for name in names]
    head = ("Node", *(printable(at(phase, "name")) for phase in phases))
    return Table("Nodes by phase: requests, and TTFT p50 in ms", head, rows)


def _cell(node: Data | None) -> str:
    if node is None:
        return printable(None)
    return f"{count(real(node, 'requests'))} · {number(real(node, 'ttft_p50_ms'))}"
