"""What every engine's page is read into, and how the series of its ranks become one number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isocost.model import ABSENT, UNSUPPORTED, EngineSample, Signal, measured
from isocost.telemetry.engines.exposition import Point

#: A start so far away is none, and no part of an identity.
MAX_STARTED_UNIX_S = 1e12

#: Engines sometimes tell a little more than 1. What is above this is no share but a percentage, or
#: nothing at all.
_MOST_SHARE = 1.1

Found = dict[str, list[Point]]


@dataclass(frozen=True, slots=True)
class EnginePage:
    """``started_unix_s`` is None when the page does not tell it, ``engine`` empty when nothing on
    it tells whose it is. ``by_model``: the parts of a page that tells of several models.
    """

    sample: EngineSample
    started_unix_s: float | None = None
    engine: str = ""
    by_model: tuple[tuple[str, EngineSample], ...] = ()


def series(found: Found, names: Sequence[str]) -> list[Point]:
    """The points of the first of ``names`` that the page has: several are the same thing."""
    return next((found[name] for name in names if name in found), [])


def has_series(page: str, prefixes: Iterable[str]) -> bool:
    """Does a line begin with one of ``prefixes``? Comments (# HELP) do not count."""
    return any(page.startswith(prefix) or f"\n{prefix}" in page for prefix in prefixes)


def is_usable(value: float) -> bool:
    """No signal of an engine is negative; NaN is one that was not measured yet."""
    return math.isfinite(value) and value >= 0


def usable(points: Iterable[Point]) -> list[float]:
    return [point.value for point in points if is_usable(point.value)]


def total(values: Sequence[float]) -> Signal:
    """Counts: those of a node's engines add up."""
    result = sum(values)
    return measured(result) if values and math.isfinite(result) else ABSENT


def or_unsupported(signal: Signal) -> Signal:
    """For what a page has from its start on, or need not have."""
    return signal if signal.known else UNSUPPORTED


def share(parts: Sequence[tuple[float, float | None]]) -> Signal:
    """The share in use of several pools, each with its size: half of a large one and nothing of a
    small one is not a quarter. Where a size is not known all count alike.
    """
    if not parts or max(part for part, _ in parts) > _MOST_SHARE:
        return ABSENT
    sizes = [size for _, size in parts if size]
    if len(sizes) == len(parts):
        used = sum(min(part, 1.0) * size for (part, _), size in zip(parts, sizes, strict=True))
        result = used / sum(sizes)
    else:
        result = sum(part for part, _ in parts) / len(parts)
    return measured(min(result, 1.0)) if math.isfinite(result) else ABSENT


def started(points: Iterable[Point]) -> float | None:
    values = [value for value in usable(points) if 0 < value < MAX_STARTED_UNIX_S]
    return min(values) if values else None
