"""The page of a comparison: the targets side by side, then each one's own report."""

from __future__ import annotations

from collections.abc import Iterator

from isocost.bench.page import plots
from isocost.bench.page.ratio_rows import ratio_rows
from isocost.bench.page.read import Data, at, mapping, real, targets, text
from isocost.bench.page.shared import (
    interruption,
    policy_facts,
    processes_section,
    run_facts,
    slo_facts,
    validity,
)
from isocost.bench.page.single import failure_counts, key_figures, report_sections
from isocost.bench.page.text import count, number, percent, printable, ratio
from isocost.bench.page.view import Block, Facts, Note, Page, Plot, Section, Table


def comparison_page(data: Data) -> Page:
    reports = targets(data)
    names = ", ".join(printable(name) for name in reports)
    slo = next((mapping(report, "slo") for report in reports.values()), {})
    facts = {
        "Targets": names or printable(None),
        "Baseline": printable(text(data, "baseline")),
        "Rounds": count(real(data, "rounds")),
        "SLO": slo_facts(slo),
        **run_facts(data),
    }
    return Page(
        title=f"Benchmark comparison: {names or printable(None)}",
        lead=(*interruption(data), *validity(data), Facts(facts)),
        sections=(*_overview(data), *_each(reports), *processes_section(data)),
    )


def _overview(data: Data) -> Iterator[Section]:
    yield Section("ratios", "Ratios", tuple(_ratios(data)))
    yield Section("targets", "Targets side by side", tuple(_side_by_side(data)))


def _ratios(data: Data) -> Iterator[Block]:
    svg = plots.ratios(data)
    if svg is not None:
        yield Plot(
            svg,
            "All were sent the same requests. Below 1 is better for latencies, above 1 for "
            "goodput. An interval that holds 1 shows no difference.",
        )
    rows = [
        (
            printable(row.target),
            row.title,
            ratio(row.value),
            row.interval,
            printable(row.verdict),
        )
        for row in ratio_rows(data)
    ]
    if not rows:
        yield Note("No ratio is known: it needs a second target.")
        return
    head = ("Target", "Figure", "Ratio", "95 % interval", "Beside the baseline")
    yield Table("Ratios to the baseline", head, rows, names=2)


def _side_by_side(data: Data) -> Iterator[Block]:
    reports = targets(data)
    rows = [
        (
            printable(name),
            count(real(report, "requests.sent")),
            count(real(report, "requests.failed")),
            number(real(report, "ttft_ms.p50")),
            number(real(report, "ttft_ms.p99")),
            number(real(report, "tpot_ms.p50")),
            number(real(report, "e2e_ms.p99")),
            percent(real(report, "goodput.fraction")),
            ratio(real(report, "imbalance")),
            failure_counts(mapping(report, "failures")),
        )
        for name, report in reports.items()
    ]
    head = (
        "Target",
        "Sent",
        "Failed",
        "TTFT p50",
        "TTFT p99",
        "TPOT p50",
        "E2E p99",
        "Goodput",
        "Imbalance",
        "Failures",
    )
    yield Table("All rounds together; latencies in ms", head, rows)
    for svg, caption in (
        (plots.ttft_cdf(data), "Further left is faster."),
        (plots.node_balance(data), "Closer to 1 is better balanced."),
    ):
        if svg is not None:
            yield Plot(svg, caption)


def _each(reports: dict[str, Data]) -> Iterator[Section]:
    for index, (name, report) in enumerate(reports.items(), start=1):
        facts = {
            "URL": printable(at(report, "target.url")),
            **policy_facts(report),
        }
        blocks = (key_figures(report), Facts(facts))
        yield Section(f"target-{index}", f"Target: {printable(name)}", blocks)
        yield from report_sections(report, prefix=f"target-{index}-", level=3)
