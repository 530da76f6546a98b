"""Distributions in a few numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """A distribution of ``count`` values, in their unit; None = there are none.

    ``stdev`` is the population's. A high percentile of few values is close to their maximum:
    ``count`` says how much it can mean.
    """

    count: int
    mean: float | None = None
    stdev: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Two percentiles of a distribution; None = not known."""

    p50: float | None = None
    p99: float | None = None


def summarise(values: Iterable[float]) -> Summary:
    """The summary of ``values``."""
    ordered = sorted(values)
    if not ordered:
        return Summary(0)
    mean = math.fsum(ordered) / len(ordered)
    variance = math.fsum((value - mean) ** 2 for value in ordered) / len(ordered)
    return Summary(
        count=len(ordered),
        mean=mean,
        stdev=math.sqrt(variance),
        p50=quantile(ordered, 0.50),
        p90=quantile(ordered, 0.90),
        p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
        max=ordered[-1],
    )


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """The quantile of sorted, non-empty ``ordered``.

    Linear between the closest ranks, at rank ``fraction * (n - 1)`` from 0: definition 7 of
    Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), numpy's default.
    """
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def percentile(values: Iterable[float], fraction: float) -> float | None:
    """The quantile of ``values`` in any order; None when there are none."""
    ordered = sorted(values)
    return quantile(ordered, fraction) if ordered else None


def distribution(values: Iterable[float], points: int) -> tuple[tuple[float, float], ...]:
    """The empirical CDF as (value, fraction of the values <= it), at most ``points`` of it.

    The points are even in the fraction; the last is always (maximum, 1).
    """
    ordered = sorted(values)
    count = len(ordered)
    taken = min(count, points)
    ranks = (count * number // taken for number in range(1, taken + 1))
    return tuple((ordered[rank - 1], rank / count) for rank in ranks)
