"""Reading a report's JSON without trusting that anything is there."""

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


def at(data: object, path: str) -> Any:
    """The value at a dotted path; None where any part of the path is missing."""
    for key in path.split("."):
        if not isinstance(data, Mapping):
            return None
        data = data.get(key)
    return data


def real(data: object, path: str) -> float | None:
    """The finite number at a dotted path; None for everything else."""
    value = _real(at(data, path))
    return value if value is not None and math.isfinite(value) else None


def text(data: object, path: str) -> str | None:
    value = at(data, path)
    return None if value is None else str(value)


def mapping(data: object, path: str) -> Data:
    value = at(data, path)
    return value if isinstance(value, Mapping) else {}


def items(data: object, path: str) -> tuple[Data, ...]:
    """The objects of a list; empty where there is none."""
    value = at(data, path)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(item for item in value if isinstance(item, Mapping))


def series(data: object, path: str) -> Values:
    """The numbers of a list, null as None; infinity is one ("inf" in a file)."""
    value = at(data, path)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(_real(item) for item in value)


def points(data: object, path: str) -> tuple[tuple[float, float], ...]:
    """The pairs of finite numbers of a list; others are left out."""
    value = at(data, path)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    pairs = (tuple(known(series({"pair": pair}, "pair"))) for pair in value)
    return tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2)


def targets(data: Data) -> dict[str, Data]:
    """The reports by target: of a comparison all, else the one."""
    if is_comparison(data):
        reports = mapping(data, "targets")
        return {str(name): report for name, report in reports.items() if isinstance(report, dict)}
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


def _real(value: object) -> float | None:
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)
