"""Latencies of the last seconds from histograms that count since the engine's start.

Two snapshots make the recent one, a recent one makes a quantile; all of it is arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from isocost.model import ABSENT, Signal, measured
from isocost.telemetry.engines.exposition import PageReader, Point
from isocost.telemetry.engines.page import Found

_ENDS = ("bucket", "count")


@dataclass(frozen=True, slots=True)
class Histogram:
    """``bounds`` rise and end with infinity; ``counts`` are of values <= the bound."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    @property
    def count(self) -> float:
        return self.counts[-1]


@dataclass(frozen=True, slots=True)
class LatencyNames:
    """An engine's names for its histograms, newest first; in seconds but for the last."""

    first_token: tuple[str, ...] = ()
    per_token: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    request: tuple[str, ...] = ()
    first_token_ms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Latencies:
    """A page's histograms in seconds, counted since the engine's start; None where it has none."""

    first_token_s: Histogram | None = None
    per_token_s: Histogram | None = None
    queue_s: Histogram | None = None
    request_s: Histogram | None = None


class LatencyReader:
    """Reads the histograms of one engine."""

    def __init__(self, names: LatencyNames) -> None:
        self._names = names
        bases = (
            *names.first_token,
            *names.per_token,
            *names.queue,
            *names.request,
            *names.first_token_ms,
        )
        self._reader = PageReader(tuple(f"{base}_{end}" for base in bases for end in _ENDS))

    def read(self, page: str) -> Latencies:
        found, names = self._reader.read(page), self._names
        return Latencies(
            first_token_s=_first(found, names.first_token)
            or _first(found, names.first_token_ms, 1e-3),
            per_token_s=_first(found, names.per_token),
            queue_s=_first(found, names.queue),
            request_s=_first(found, names.request),
        )


def read_histogram(found: Found, name: str, unit: float = 1.0) -> Histogram | None:
    """The histogram ``name``, its label sets (engines, models) added up. None where there is none,
    where they have different bounds, or where the counts are no histogram's.
    """
    label_sets: dict[tuple[tuple[str, str], ...], dict[float, float]] = {}
    for point in found.get(f"{name}_bucket", ()):
        try:
            bound = float(point.labels.get("le", ""))
        except ValueError:
            return None
        label_sets.setdefault(_labels(point), {})[bound] = point.value
    for point in found.get(f"{name}_count", ()):
        # A page may leave the last bucket out: it is the count.
        if (buckets := label_sets.get(_labels(point))) is not None:
            buckets.setdefault(math.inf, point.value)
    histograms = [_histogram(buckets) for buckets in label_sets.values()]
    bounds = {None if one is None else one.bounds for one in histograms}
    if len(bounds) != 1 or None in bounds:
        return None
    known = [one for one in histograms if one is not None]
    counts = [sum(column) for column in zip(*(one.counts for one in known), strict=True)]
    return Histogram(tuple(bound * unit for bound in known[0].bounds), tuple(counts))


def recent(before: Histogram | None, after: Histogram | None) -> Histogram | None:
    """What came between two snapshots; None where nothing came or it cannot be told. Where a count
    fell the engine began anew, and all that it counted since is recent.
    """
    if before is None or after is None or before.bounds != after.bounds:
        return None
    counts = after.counts
    if all(new >= old for old, new in zip(before.counts, counts, strict=True)):
        differences = [new - old for old, new in zip(before.counts, counts, strict=True)]
        # Buckets are not read at one moment: a value may be in one and not yet in the next.
        top = differences[-1]
        counts = tuple(min(highest, top) for highest in accumulate(differences, max))
    return Histogram(after.bounds, counts) if counts[-1] > 0 else None


def quantile(histogram: Histogram | None, share: float) -> Signal:
    """The value that ``share`` in [0,1] of all are not above, linear within its bucket as
    Prometheus's histogram_quantile; absent without values. Beyond the last finite bound nothing is
    known but that: it is the answer then, and too low.
    """
    if histogram is None or histogram.count <= 0:
        return ABSENT
    rank = share * histogram.count
    low, below = 0.0, 0.0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=True):
        if count >= rank and count > below:
            if math.isinf(bound):
                break
            start = min(low, bound)
            part = max(rank - below, 0.0) / (count - below)
            return measured(start + (bound - start) * part)
        low, below = bound, count
    finite = [bound for bound in histogram.bounds if math.isfinite(bound)]
    return measured(finite[-1]) if finite else ABSENT


def _first(found: Found, names: Sequence[str], unit: float = 1.0) -> Histogram | None:
    there = (name for name in names if f"{name}_bucket" in found)
    name = next(there, None)
    return None if name is None else read_histogram(found, name, unit)


def _histogram(buckets: dict[float, float]) -> Histogram | None:
    bounds = sorted(bound for bound in buckets if not math.isnan(bound))
    counts = [buckets[bound] for bound in bounds]
    whole = bool(bounds) and len(bounds) == len(buckets) and bounds[-1] == math.inf
    rising = all(low <= high for low, high in pairwise([0.0, *counts]))  # False with NaN
    if not whole or not rising or not math.isfinite(counts[-1]):
        return None
    return Histogram(tuple(bounds), tuple(counts))


def _labels(point: Point) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in point.labels.items() if item[0] != "le"))
