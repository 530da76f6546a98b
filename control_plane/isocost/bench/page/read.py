"""Reading a report's JSON, of which any part may be null: not measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Data = Mapping[str, Any]
#: One cell of an entropy series: unknown, a number, or infinity.
Values = tuple[float | None, ...]

COMPARISON_SCHEMA = "isocost.comparison/1"


def is_comparison(data: Data) -> bool:
    return data.get("schema") == COMPARISON_SCHEMA


def at(data: Data, path: str) -> Any:
    """The value at a dotted path; None where any part of the path is null."""
    value: Any = data
    for key in path.split("."):
        value = None if value is None else value.get(key)
    return value


def real(data: Data, path: str) -> float | None:
    """The finite number at a dotted path; None for infinity too."""
    value = _real(at(data, path))
    return value if value is not None and math.isfinite(value) else None


def text(data: Data, path: str) -> str | None:
    value = at(data, path)
    return None if value is None else str(value)


def mapping(data: Data, path: str) -> Data:
    """The object at a dotted path; empty for null."""
    return at(data, path) or {}


def items(data: Data, path: str) -> tuple[Data, ...]:
    """The objects of a list; empty for null."""
    return tuple(at(data, path) or ())


def series(data: Data, path: str) -> Values:
    """The numbers of a list, null as None; infinity is one ("inf" in a file)."""
    return tuple(_real(item) for item in at(data, path) or ())


def points(data: Data, path: str) -> tuple[tuple[float, float], ...]:
    """The pairs of a list."""
    return tuple((x, y) for x, y in at(data, path) or ())


def targets(data: Data) -> dict[str, Data]:
    """The reports by target: of a comparison all, else the one."""
    if is_comparison(data):
        return dict(mapping(data, "targets"))
    return {text(data, "target.name") or text(data, "policy") or "run": data}


def expected_shares(report: Data) -> tuple[float | None, ...]:
    """The share of the requests that each node should have had, by the report's basis."""
    nodes = items(report, "nodes")
    if text(report, "imbalance_basis") == "equal":
        return (1 / len(nodes),) * len(nodes) if nodes else ()
    key = "capacity_share" if text(report, "imbalance_basis") == "capacity" else "weight_share"
    return tuple(real(node, key) for node in nodes)


def known(values: Sequence[float | None]) -> Iterator[float]:
    """The finite values."""
    return (value for value in values if value is not None and math.isfinite(value))


def _real(value: float | str | None) -> float | None:
    return None if value is None else float(value)
