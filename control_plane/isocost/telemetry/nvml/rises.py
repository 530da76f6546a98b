"""What the error counters of GPUs rose by in the last minute."""

from __future__ import annotations

import collections
from collections.abc import Collection, Mapping

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState
from isocost.telemetry.nvml.counters import increase
from isocost.telemetry.nvml.sample import total

WINDOW_S = 60.0
#: The signal of a rise, and the counters whose rises it adds up.
RISES = {
    "pcie_replays_per_minute": ("pcie_replays",),
    "nvlink_crc_errors_per_minute": ("nvlink_crc_flit_errors", "nvlink_crc_data_errors"),
    "nvlink_recoveries_per_minute": ("nvlink_replays", "nvlink_recoveries"),
}


class Rises:
    """Is told the counters of each GPU in each round."""

    def __init__(self) -> None:
        self._gpus: dict[str, dict[str, _Window]] = {}

    def add(self, uuid: str, signals: Mapping[str, Signal], taken_s: float) -> dict[str, Signal]:
        """The rises of a GPU until ``taken_s``, as of which ``signals`` are."""
        windows = self._gpus.get(uuid)
        if windows is None:
            windows = self._gpus[uuid] = collections.defaultdict(_Window)
        return {
            name: total([windows[c].rise(signals.get(c, ABSENT), taken_s) for c in counters])
            for name, counters in RISES.items()
        }

    def forget_others(self, uuids: Collection[str]) -> None:
        """A GPU that is not one of ``uuids`` begins anew when it comes back."""
        for uuid in self._gpus.keys() - uuids:
            del self._gpus[uuid]


class _Window:
    """The readings of one counter."""

    def __init__(self) -> None:
        self._last: Signal = ABSENT
        self._read_s = 0.0
        self._read_twice = False
        #: What the counter rose by in the window, each part with the time at which it showed.
        self._parts: collections.deque[tuple[float, float]] = collections.deque()

    def rise(self, counter: Signal, taken_s: float) -> Signal:
        """What the counter rose by until now; absent before two readings."""
        if counter.state is SignalState.UNSUPPORTED:
            return UNSUPPORTED
        if not counter.known:
            return ABSENT
        read_s = taken_s - counter.age_s
        # What could not be read, or was not this time, comes as the last reading once more.
        if counter.state is SignalState.MEASURED and (
            not self._last.known or read_s > self._read_s
        ):
            part = increase(self._last, counter)
            if part.known and part.value > 0:
                self._parts.append((read_s, part.value))
            self._read_twice = self._read_twice or part.known
            self._last, self._read_s = counter, read_s
        while self._parts and self._parts[0][0] <= taken_s - WINDOW_S:
            self._parts.popleft()
        if not self._read_twice:
            return ABSENT
        return Signal(counter.state, sum(value for _, value in self._parts), counter.age_s)
