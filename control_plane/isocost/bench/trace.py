"""Request traces: when each request arrives and how long it is. Times are relative to the start."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

from isocost.errors import StartError

#: The bundled slice: this many seconds of the Azure conversation trace.
BUNDLED_SPAN_S = 600.0
_BUNDLED = "data/azure_conv_10min.csv"
_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace."""

    arrival_s: float
    input_tokens: int
    output_tokens: int


def read_azure(path: Path) -> tuple[TraceRequest, ...]:
    """Read a CSV of the Azure LLM inference traces; arrivals count from the first row's.

    StartError names the line that cannot be read.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return parse_azure(file, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"{path}: {error}") from error


def parse_azure(lines: Iterable[str], source: str) -> tuple[TraceRequest, ...]:
    """Parse the Azure columns TIMESTAMP, ContextTokens and GeneratedTokens."""
    rows = csv.DictReader(lines)
    if tuple(rows.fieldnames or ()) != _COLUMNS:
        raise StartError(f"{source}: the first line must be {','.join(_COLUMNS)}")
    requests: list[TraceRequest] = []
    first_ticks: int | None = None
    for row in rows:
        try:
            ticks = _ticks(row["TIMESTAMP"])
            first_ticks = ticks if first_ticks is None else first_ticks
            requests.append(
                TraceRequest(
                    arrival_s=(ticks - first_ticks) / 1e7,
                    input_tokens=int(row["ContextTokens"]),
                    output_tokens=int(row["GeneratedTokens"]),
                )
            )
        except (TypeError, ValueError) as error:
            raise StartError(f"{source}: line {rows.line_num}: {error}") from error
    return tuple(requests)


def bundled() -> tuple[TraceRequest, ...]:
    """The slice that comes with the package: 10 minutes of real conversations."""
    with resources.as_file(resources.files("isocost") / _BUNDLED) as path:
        return read_azure(path)


def compressed(
    requests: Sequence[TraceRequest], span_s: float, duration_s: float
) -> tuple[TraceRequest, ...]:
    """The same requests with ``span_s`` of trace time squeezed into ``duration_s``."""
    factor = duration_s / span_s
    return tuple(replace(request, arrival_s=request.arrival_s * factor) for request in requests)


def _ticks(stamp: str) -> int:
    """100 ns since 1970. The seven digits of the fraction are one more than datetime knows."""
    whole, _, fraction = stamp.partition(".")
    seconds = (datetime.fromisoformat(whole).replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
    return seconds * 10_000_000 + int((fraction or "0").ljust(7, "0")[:7])
