"""Envoy's access log: which node took each request, after how many attempts, and what the filter
decided from which table. The keys are those of the bootstrap's json_format."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

#: The filter's reason when it chose the node; any other names a fallback.
PICKED = "picked"


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One finished request as Envoy logged it; None = the log does not say.

    ``reason`` is the filter's: picked, no_table, stale_table or no_eligible; None without filter.
    """

    request_id: str | None
    status: int | None
    node: str | None
    rack: str | None
    attempts: int | None
    reason: str | None
    table_age_ms: float | None


class AccessLog:
    """Follows a growing file; lines that are not the log's JSON objects are passed over.

    A file that has become shorter was emptied, and is read from its start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def skip_old(self) -> None:
        """Pass over what is in the file now: other runs and other clients."""
        with contextlib.suppress(FileNotFoundError):
            self._offset = self._path.stat().st_size

    def read_new(self) -> list[LoggedRequest]:
        """The requests logged since the last call; an unfinished last line waits for the next."""
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self._offset += end
        parsed = (parse_line(line) for line in data[:end].splitlines())
        return [request for request in parsed if request is not None]


def parse_line(line: str | bytes) -> LoggedRequest | None:
    """One line of the log; None for a line of something else."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or "decision" not in fields:
        return None
    decision = _logfmt(_text(fields["decision"]) or "")
    age_ms = decision.get("age_ms", "")
    return LoggedRequest(
        request_id=_text(fields.get("request_id")),
        status=_number(fields.get("status")),
        node=_text(fields.get("node")),
        rack=_text(fields.get("rack")),
        attempts=_number(fields.get("attempts")),
        reason=decision.get("reason"),
        table_age_ms=float(age_ms) if age_ms.isdigit() else None,
    )


def _logfmt(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split() if "=" in pair)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", "-") else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
