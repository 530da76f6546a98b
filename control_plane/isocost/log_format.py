"""How log records are written: as text or as JSON, and so that no foreign text forges a line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from isocost.output import printable

FORMATS = ("text", "json")

#: Before each line of a record but its first: a name with a line break in it looks like no record.
_CONTINUED = "\n  | "
#: What every record has; the rest is what a log call gave as ``extra``.
_STANDARD = {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"}


class TextFormatter(logging.Formatter):
    """For a person: control characters are escaped, and lines after the first are marked."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)).replace("\n", _CONTINUED)


class JsonFormatter(logging.Formatter):
    """For a machine: one object a line, with ``time`` (RFC 3339, UTC, milliseconds), ``level``,
    ``logger``, ``message``, ``fields`` and, after an error, ``exception``.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "fields": {
                name: value for name, value in vars(record).items() if name not in _STANDARD
            },
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # As ASCII no letter of it ends a line.
        return json.dumps(line, default=str, ensure_ascii=True)


def formatter(kind: str) -> logging.Formatter:
    """One of FORMATS."""
    return JsonFormatter() if kind == "json" else TextFormatter()


def install() -> logging.Handler:
    """Log to standard error, as text until the handler has another formatter. Who has set logging
    up before keeps what he has.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    return handler
