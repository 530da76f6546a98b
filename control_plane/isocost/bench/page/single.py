"""The page of one report, and its parts that a comparison repeats for each target."""

from __future__ import annotations

from collections.abc import Iterator

from isocost.bench.page import plots
from isocost.bench.page.node_tables import nodes_table, phase_nodes_table
from isocost.bench.page.plots.heat_map import has_entropy
from isocost.bench.page.read import Data, at, items, mapping, real, text
from isocost.bench.page.rows import left_out
from isocost.bench.page.shared import (
    interruption,
    policy_facts,
    processes_section,
    run_facts,
    slo_facts,
    validity,
)
from isocost.bench.page.text import count, number, percent, printable, quantity, ratio
from isocost.bench.page.view import Block, Facts, Note, Page, Plot, Section, Table

_LATENCIES = (
    ("Time to first token (TTFT)", "ttft_ms"),
    ("Time per output token (TPOT)", "tpot_ms"),
    ("End to end", "e2e_ms"),
)
_COLUMNS = ("p50", "p90", "p95", "p99", "max", "mean", "stdev")


def report_page(report: Data) -> Page:
    name = text(report, "target.name") or text(report, "policy")
    facts = {
        "Target": printable(name),
        "URL": printable(text(report, "target.url")),
        **policy_facts(report),
        **run_facts(report),
    }
    return Page(
        title=f"Benchmark report: {printable(name)}",
        lead=(*interruption(report), *validity(report), key_figures(report), Facts(facts)),
        sections=(*report_sections(report), *processes_section(report)),
    )


def report_sections(report: Data, prefix: str = "", level: int = 2) -> Iterator[Section]:
    """What was measured at one target. ``prefix`` begins the keys."""

    def section(key: str, title: str, *blocks: Block) -> Section:
        return Section(f"{prefix}{key}", title, blocks, level)

    yield section("totals", "Totals", *_totals(report))
    yield section("latencies", "Latencies", *_latencies(report), *_ttft(report, prefix))
    yield section("timeline", "Over time", *_timeline(report, prefix))
    yield section("faults", "Faults", _faults(report))
    yield section("phases", "Phases", *_phases(report))
    if mapping(report, "kinds"):
        yield section("kinds", "Kinds of request", _kinds(report))
    yield section("nodes", "Nodes", *_nodes(report, prefix))
    yield section("entropy", "Entropy", *_entropy(report, prefix))
    yield section("failures", "Failures", *_failures(report))
    gateway = _gateway(report)
    if gateway is not None:
        yield section("gateway", "Gateway", gateway)


def key_figures(report: Data) -> Facts:
    """The few figures that a reader looks for first."""
    return Facts(
        {
            "TTFT p50": quantity(real(report, "ttft_ms.p50"), "ms"),
            "TTFT p99": quantity(real(report, "ttft_ms.p99"), "ms"),
            "TPOT p50": quantity(real(report, "tpot_ms.p50"), "ms"),
            "Goodput": percent(real(report, "goodput.fraction")),
            "Failed": count(real(report, "requests.failed")),
            "Imbalance": ratio(real(report, "imbalance")),
        },
        large=True,
    )


def _totals(report: Data) -> Iterator[Block]:
    counts = [
        (name.capitalize(), count(real(report, f"requests.{name}")))
        for name in ("sent", "ok", "failed", "rejected", "retried")
    ]
    tokens = [
        ("Prompt tokens", count(real(report, "tokens.input"))),
        ("Answer tokens", count(real(report, "tokens.output"))),
        ("Answer tokens per second", number(real(report, "tokens.output_per_s"))),
        ("Goodput, requests/s", number(real(report, "goodput.requests_per_s"))),
        ("Goodput, part of the requests", percent(real(report, "goodput.fraction"))),
    ]
    yield Table("Requests and tokens of complete answers", ("", "Total"), counts + tokens)
    yield Note(
        f"Goodput counts complete answers within the SLO: {slo_facts(mapping(report, 'slo'))}."
    )


def _latencies(report: Data) -> Iterator[Block]:
    yield latency_table(
        "Latencies of complete answers from their scheduled time, ms",
        [(title, mapping(report, key)) for title, key in _LATENCIES],
    )
    lateness = mapping(report, "lateness_ms")
    row = tuple(number(real(lateness, key)) for key in ("p50", "p99", "max"))
    yield Table(
        "The generator's own lateness, sent after scheduled, ms",
        ("", "p50", "p99", "max"),
        [("Lateness", *row)],
    )


def latency_table(caption: str, rows: list[tuple[str, Data]]) -> Table:
    return Table(
        caption,
        ("", *_COLUMNS),
        [(title, *(number(real(part, column)) for column in _COLUMNS)) for title, part in rows],
    )


def _ttft(report: Data, prefix: str) -> Iterator[Block]:
    svg = plots.ttft_cdf(report, f"{prefix}ttft-cdf")
    yield _plot(svg, "Answers that had begun by then.", "No answer had a first token.")


def _timeline(report: Data, prefix: str) -> Iterator[Block]:
    svg = plots.timeline(report, f"{prefix}timeline-plot")
    caption = (
        "A request counts at the time when the trace scheduled it, so that a stall shows where "
        "it began. A gap is a step without a complete answer."
    )
    yield _plot(svg, caption, "This report has no series.")


def _faults(report: Data) -> Block:
    rows = [
        (
            printable(at(fault, "node")),
            printable(at(fault, "fault")),
            ", ".join(
                f"{printable(name)} {printable(value)}"
                for name, value in mapping(fault, "parameters").items()
            )
            or printable(None),
            number(real(fault, "start_s")),
            number(real(fault, "end_s")),
        )
        for fault in items(report, "faults")
    ]
    if not rows:
        return Note("The run ordered no faults.")
    head = ("Node", "Fault", "Parameters", "From, s", "To, s")
    return Table("Faults that the run ordered, since its start", head, rows, names=3)


def _phases(report: Data) -> Iterator[Block]:
    rows = [
        (
            printable(at(phase, "name")),
            f"{number(real(phase, 'start_s'))} to {number(real(phase, 'end_s'))}",
            count(real(phase, "requests.sent")),
            count(real(phase, "requests.failed")),
            count(real(phase, "requests.rejected")),
            number(real(phase, "ttft_ms.p50")),
            number(real(phase, "ttft_ms.p99")),
            number(real(phase, "tpot_ms.p50")),
            number(real(phase, "e2e_ms.p50")),
            number(real(phase, "e2e_ms.p99")),
            failure_counts(mapping(phase, "failures")),
        )
        for phase in items(report, "phases")
    ]
    if not rows:
        yield Note("This report has no phases.")
        return
    head = (
        "Phase",
        "Seconds",
        "Sent",
        "Failed",
        "Rejected",
        "TTFT p50",
        "TTFT p99",
        "TPOT p50",
        "E2E p50",
        "E2E p99",
        "Failures",
    )
    yield Table("Phases between the faults' starts and ends; latencies in ms", head, rows)
    table = phase_nodes_table(report)
    if table is not None:
        yield table


def _kinds(report: Data) -> Table:
    rows = [
        (
            printable(kind),
            count(real(part, "requests")),
            count(real(part, "ok")),
            *(
                number(real(part, f"{key}.{column}"))
                for key in ("ttft_ms", "tpot_ms", "e2e_ms")
                for column in ("p50", "p99")
            ),
        )
        for kind, part in mapping(report, "kinds").items()
    ]
    head = (
        "Kind",
        "Requests",
        "Complete",
        "TTFT p50",
        "TTFT p99",
        "TPOT p50",
        "TPOT p99",
        "E2E p50",
        "E2E p99",
    )
    return Table("By the trace's kind of request; latencies in ms", head, rows)


def _nodes(report: Data, prefix: str) -> Iterator[Block]:
    nodes = items(report, "nodes")
    if not nodes:
        yield Note("No answer named its node, so the shares are not known.")
        return
    basis = plots.BASIS.get(text(report, "imbalance_basis") or "", "share of the weights")
    caption = (
        f"Bar: share of the requests. Tick: {basis}. Imbalance, the largest of share / {basis}: "
        f"{ratio(real(report, 'imbalance'))}.{left_out(nodes)}"
    )
    yield _plot(
        plots.node_share(report, f"{prefix}node-share"),
        caption,
        "No answer named its node, so the shares are not known.",
    )
    yield nodes_table(report)


def _entropy(report: Data, prefix: str) -> Iterator[Block]:
    svg = plots.heat_map(report, f"{prefix}heat-map")
    shown = left_out(items(report, "nodes"))
    asked, answered = real(report, "samples.asked"), real(report, "samples.answered")
    if answered != asked:
        yield Note(
            f"The control plane answered {count(answered)} of {count(asked)} samples; what it did "
            "not tell is missing here and in the weights."
        )
    if has_entropy(report):
        caption = (
            "The control plane's entropy of each node: lower takes more requests, infinite none."
            + shown
        )
        yield _plot(svg, caption, "")
        return
    why = "No control plane was given (--control-plane)" if asked is None else "It told no entropy"
    yield Note(
        f"{why}, so the nodes' entropy is not known"
        + ("; their requests over time stand in its place." if svg else ".")
    )
    if svg is not None:
        yield Plot(svg, f"Requests of each node, by scheduled time.{shown}")


def _failures(report: Data) -> Iterator[Block]:
    failures = mapping(report, "failures")
    if not failures:
        failed = real(report, "requests.failed")
        yield Note("No request failed." if failed == 0 else "The kinds of failure are not known.")
        return
    sent = real(report, "requests.sent")
    rows = [
        (
            printable(kind),
            count(real(failures, kind)),
            percent((real(failures, kind) or 0.0) / sent if sent else None),
        )
        for kind in sorted(failures, key=lambda kind: -(real(failures, kind) or 0.0))
    ]
    yield Table("Failures by kind", ("Kind", "Requests", "Of those sent"), rows)
    examples = mapping(report, "failure_examples")
    if examples:
        said = [(printable(kind), printable(words)) for kind, words in examples.items()]
        yield Table("What the first of a kind said", ("Kind", "Words"), said, names=2)


def failure_counts(failures: Data) -> str:
    """Failures by kind on one line."""
    parts = [f"{printable(kind)} {count(real(failures, kind))}" for kind in failures]
    return ", ".join(parts) or printable(None)


def _gateway(report: Data) -> Block | None:
    """None of a run that measured nothing of it."""

    def pair(path: str) -> str:
        return f"{number(real(report, f'{path}.p50'))} / {number(real(report, f'{path}.p99'))}"

    rows = [
        ("Time between tables, p50 / p99, ms", pair("push.interval_ms")),
        ("Age of the table at the pick, p50 / p99, ms", pair("push.age_at_pick_ms")),
        ("Filter, bytes", count(real(report, "filter.wasm_bytes"))),
        ("Envoy's CPU per request, µs", number(real(report, "filter.envoy_cpu_us_per_request"))),
    ]
    if not any(character.isdigit() for _, value in rows for character in value):
        return None
    return Table("What the gateway and the control plane told", ("", ""), rows)


def _plot(svg: str | None, caption: str, instead: str) -> Block:
    return Note(instead) if svg is None else Plot(svg, caption)
