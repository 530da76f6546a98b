"""Whether the demo's run counts as good: every request answered, each picked, no node left out."""

from __future__ import annotations

from collections import Counter

from isocost.bench.access_log import PICKED
from isocost.bench.assemble import Measurement
from isocost.bench.report import Report


def problems(report: Report, run: Measurement) -> list[str]:
    """What went wrong, one line each; empty = nothing."""
    found: list[str] = []
    if report.failures:
        failures = Counter[str](report.failures)
        found.append(f"{failures.total()} requests failed: {_listed(failures)}")
    if len(run.log) != len(run.results):
        found.append(f"Envoy logged {len(run.log)} requests of {len(run.results)}")
    unpicked = Counter(entry.reason or "no decision" for entry in run.log if entry.reason != PICKED)
    if unpicked:
        found.append(
            f"{unpicked.total()} requests were not picked by the filter: {_listed(unpicked)}"
        )
    idle = [node.name for node in report.nodes if node.requests == 0]
    if idle:
        found.append(f"nodes without a request: {', '.join(idle)}")
    return found


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
