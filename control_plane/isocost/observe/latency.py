"""Mean latencies per node over a sliding window, in buckets of a tenth of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isocost.model import ABSENT, Signal, SignalState

_BUCKETS = 10


class LatencyWindow:
    """Sums and counts of one latency per node; the mean forgets what is older than the window."""

    def __init__(self, window_s: float) -> None:
        self._bucket_s = window_s / _BUCKETS
        self._rows: dict[int, NDArray[np.float64]] = {}

    def add(self, node_id: int, sum_ms: float, count: int, now_s: float) -> None:
        """Add ``count`` latencies whose sum is ``sum_ms``."""
        if count <= 0:
            return
        row = self._rows.get(node_id)
        if row is None:
            row = self._rows[node_id] = np.zeros((_BUCKETS, 3))
        tick = int(now_s / self._bucket_s)
        bucket = row[tick % _BUCKETS]
        if bucket[0] != tick:
            bucket[:] = (tick, 0.0, 0.0)
        bucket[1] += sum_ms
        bucket[2] += count

    def mean(self, node_id: int, now_s: float) -> Signal:
        """The mean in milliseconds over the window; absent without a single observation in it."""
        row = self._rows.get(node_id)
        if row is None:
            return ABSENT
        oldest = int(now_s / self._bucket_s) - _BUCKETS
        live = row[row[:, 0] > oldest]
        count = live[:, 2].sum()
        if count == 0:
            return ABSENT
        return Signal(SignalState.MEASURED, float(live[:, 1].sum() / count))

    def keep(self, node_ids: Sequence[int]) -> None:
        """Forget every node that is not listed."""
        wanted = set(node_ids)
        for node_id in [known for known in self._rows if known not in wanted]:
            del self._rows[node_id]
