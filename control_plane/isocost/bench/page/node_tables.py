"""Tables with a row per node."""

from __future__ import annotations

from isocost.bench.page.read import Data, at, expected_shares, items, known, real, series, text
from isocost.bench.page.text import count, number, percent, printable, ratio, signed
from isocost.bench.page.view import Table


def nodes_table(report: Data) -> Table:
    """Each node's part, latency, and how fresh and how true its telemetry was."""
    rows = []
    for node, expected in zip(items(report, "nodes"), expected_shares(report), strict=True):
        share = real(node, "share")
        offsets = list(known(series(node, "series.clock_offset_ms")))
        rows.append(
            (
                printable(at(node, "name")),
                printable(at(node, "rack")),
                count(real(node, "requests")),
                percent(share),
                percent(expected),
                ratio(share / expected if share is not None and expected else None),
                number(real(node, "ttft_p99_ms")),
                number(max(known(series(node, "series.sample_age_s")), default=None)),
                signed(max(offsets, key=abs, default=None)),
            )
        )
    head = (
        "Node",
        "Rack",
        "Requests",
        "Share",
        "Expected",
        "Share / expected",
        "TTFT p99, ms",
        "Oldest sample, s",
        "Clock off by, ms",
    )
    return Table("Nodes; the last two columns are the run's largest", head, rows, names=2)


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
