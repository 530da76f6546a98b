"""BurstGPT's traces: ChatGPT and GPT-4 requests, with times in whole seconds.

https://github.com/HPMLL/BurstGPT; releases from 2.0 on also name the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from isocost.bench.sources.rows import csv_rows, number, text, tokens
from isocost.bench.trace import TraceRequest

#: Resolution of the times.
STEP_S = 1.0
_SESSION = "Session ID"
FIELDS = (
    number("Timestamp"),
    tokens("Request tokens"),
    tokens("Response tokens"),
    text("Log Type"),
)


def read(lines: Iterable[str], source: str) -> Iterator[TraceRequest]:
    """The requests in the file's order, also those that failed (0 response tokens).

    Users are the conversations, kinds the log types.
    """
    lines = iter(lines)
    header = next(lines, "")
    fields = (*FIELDS, text(_SESSION)) if _SESSION in header else FIELDS
    first_s: float | None = None
    for at_s, input_tokens, output_tokens, log_type, *session in csv_rows(
        chain([header], lines), source, fields
    ):
        if first_s is None:
            first_s = at_s
        yield TraceRequest(
            at_s - first_s,
            input_tokens,
            output_tokens,
            user=(session[0] or None) if session else None,
            kind=log_type.removesuffix(" log") or None,
        )
