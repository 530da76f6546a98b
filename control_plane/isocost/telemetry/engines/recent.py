"""An engine's latencies of the last half minute, from the histograms on its page."""

from __future__ import annotations

import collections
import dataclasses
from dataclasses import dataclass

from isocost.model import ABSENT, Signal
from isocost.telemetry.engines.histogram import Histogram, Latencies, quantile, recent

WINDOW_S = 30.0
#: Histograms are most of a page: reading them each time would double what a page costs.
STEP_S = 5.0


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of one latency, in seconds; absent where no request told it in the window."""

    p50: Signal = ABSENT
    p99: Signal = ABSENT


class RecentLatencies:
    """Snapshots of one engine's histograms; times are monotonic."""

    def __init__(self) -> None:
        self._snapshots: collections.deque[tuple[float, Latencies]] = collections.deque()

    def due(self, now_s: float) -> bool:
        return not self._snapshots or now_s >= self._snapshots[-1][0] + STEP_S

    def take(self, latencies: Latencies, now_s: float) -> None:
        """A snapshot; those that are not needed any more go."""
        self._snapshots.append((now_s, latencies))
        while len(self._snapshots) > 2 and self._snapshots[1][0] <= now_s - WINDOW_S:
            self._snapshots.popleft()

    def forget(self) -> None:
        """The engine is another one: its counts have nothing to do with those before."""
        self._snapshots.clear()

    def quantiles(self, now_s: float) -> dict[str, Quantiles]:
        """By latency (the fields of Latencies without their unit); all are absent when the last
        snapshot is old, for a page that does not come tells of no latency of now.
        """
        names = [field.name for field in dataclasses.fields(Latencies)]
        if len(self._snapshots) < 2 or now_s > self._snapshots[-1][0] + 2 * STEP_S:
            return {name.removesuffix("_s"): Quantiles() for name in names}
        first, last = self._snapshots[0][1], self._snapshots[-1][1]
        return {
            name.removesuffix("_s"): _quantiles(getattr(first, name), getattr(last, name))
            for name in names
        }


def _quantiles(before: Histogram | None, after: Histogram | None) -> Quantiles:
    came = recent(before, after)
    return Quantiles(quantile(came, 0.5), quantile(came, 0.99))
