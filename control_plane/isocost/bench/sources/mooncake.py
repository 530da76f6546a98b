"""Mooncake's traces: JSON lines with the hashes of each prompt's 512-token blocks.

https://github.com/kvcache-ai/Mooncake
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from isocost.bench.sources.rows import Field, json_number, json_rows, json_tokens
from isocost.bench.trace import TraceRequest

#: Tokens under one hash id.
BLOCK_TOKENS = 512
#: The published traces name times in batches of about ten requests, this far apart.
STEP_S = 3.0
#: Hash ids are whole numbers of 64 bits, with or without a sign.
_IDS = range(-(2**63), 2**64)


def read(lines: Iterable[str], source: str) -> Iterator[TraceRequest]:
    """The requests in the file's order; the first arrives at 0."""
    first_ms: float | None = None
    for at_ms, input_tokens, output_tokens, blocks in json_rows(lines, source, FIELDS):
        if first_ms is None:
            first_ms = at_ms
        yield TraceRequest(
            (at_ms - first_ms) / 1e3, input_tokens, output_tokens, blocks, BLOCK_TOKENS
        )


def _ids(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(item) is int and item in _IDS for item in value):
        raise ValueError
    return tuple(value)


FIELDS = (
    json_number("timestamp"),
    json_tokens("input_length"),
    json_tokens("output_length"),
    Field("hash_ids", _ids, "a list of whole numbers of 64 bits, or nothing"),
)
