"""The Azure LLM inference traces of 2023 and 2024: arrival, prompt and answer length.

https://github.com/Azure/AzurePublicDataset
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from isocost.bench.sources.rows import Field, csv_rows, tokens
from isocost.bench.trace import TraceRequest

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Seven digits of fraction (2023) are one more than datetime knows; 2024's times have an offset.
_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,7}))?([+-]\d\d:\d\d)?", re.ASCII
)


def read(lines: Iterable[str], source: str) -> Iterator[TraceRequest]:
    """The requests in the file's order; the first arrives at 0."""
    first: int | None = None
    for ticks, input_tokens, output_tokens in csv_rows(lines, source, FIELDS):
        if first is None:
            first = ticks
        yield TraceRequest((ticks - first) / 1e7, input_tokens, output_tokens)


def _ticks(stamp: str) -> int:
    """100 ns since 1970; ValueError for what is no time."""
    match = _STAMP.fullmatch(stamp)
    if match is None:
        raise ValueError
    whole, fraction, offset = match.groups()
    moment = datetime.fromisoformat(whole + (offset or "+00:00"))
    return (moment - _EPOCH) // timedelta(seconds=1) * 10_000_000 + int(
        (fraction or "0").ljust(7, "0")
    )


FIELDS = (
    Field("TIMESTAMP", _ticks, "a time like 2023-11-16 18:15:46.6805900"),
    tokens("ContextTokens"),
    tokens("GeneratedTokens"),
)
