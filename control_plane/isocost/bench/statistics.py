"""Distributions in a few numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """A distribution; the unit is the values'. ``stdev`` is the population's."""

    mean: float
    stdev: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


def summarise(values: Iterable[float]) -> Summary | None:
    """The summary of ``values``; None when there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    mean = math.fsum(ordered) / len(ordered)
    variance = math.fsum((value - mean) ** 2 for value in ordered) / len(ordered)
    return Summary(
        mean=mean,
        stdev=math.sqrt(variance),
        p50=quantile(ordered, 0.50),
        p90=quantile(ordered, 0.90),
        p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
        max=ordered[-1],
    )


def quantile(ordered: list[float], fraction: float) -> float:
    """Linear interpolation between the closest ranks of sorted, non-empty ``ordered``."""
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
