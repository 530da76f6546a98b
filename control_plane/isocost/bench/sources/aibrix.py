"""Arrivals and lengths as CSV, as cut from AIBrix's autoscaling workloads.

https://github.com/vllm-project/aibrix, benchmarks/scenarios/autoscaling
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from isocost.bench.sources.rows import csv_rows, number, tokens
from isocost.bench.trace import TraceRequest

FIELDS = (number("timestamp_ms"), tokens("prompt_tokens"), tokens("output_tokens"))


def read(lines: Iterable[str], source: str) -> Iterator[TraceRequest]:
    """The requests in the file's order; the first arrives at 0."""
    first_ms: float | None = None
    for at_ms, input_tokens, output_tokens in csv_rows(lines, source, FIELDS):
        if first_ms is None:
            first_ms = at_ms
        yield TraceRequest((at_ms - first_ms) / 1e3, input_tokens, output_tokens)
