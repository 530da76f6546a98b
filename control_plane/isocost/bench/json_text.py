"""Dataclasses as JSON: what can be read by eye, also where it holds long series."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_INDENT = "  "


def plain(value: object) -> Any:
    """``value`` as the types that JSON has: dict, list, text, number, bool and None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    return value


def text(value: object, indent: str = "") -> str:
    """The JSON text of a plain value. Lists of anything but objects stay on one line.

    ValueError for NaN and infinity, which JSON has not.
    """
    inner = indent + _INDENT
    if isinstance(value, dict) and value:
        rows = [f"{json.dumps(name)}: {text(part, inner)}" for name, part in value.items()]
        opening, closing = "{", "}"
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        rows = [text(part, inner) for part in value]
        opening, closing = "[", "]"
    else:
        return json.dumps(value, allow_nan=False)
    body = ",\n".join(inner + row for row in rows)
    return f"{opening}\n{body}\n{indent}{closing}"
