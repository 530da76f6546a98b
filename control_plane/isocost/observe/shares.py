"""Each VM's part of the fleet's requests: how much it does not see of what the others send."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from isocost.observe.batch import Batch, node_table

#: Half of what a VM started is forgotten in this time: traffic that moves to another Envoy shows
#: within a few seconds, and a burst of some tenths of a second does not look like a shift.
_HALF_LIFE_S = 2.0

#: Requests that every live VM is credited with: at a handful of requests a share is chance, and
#: all VMs count alike.
_CREDIT = 1.0

#: (Envoy, incarnation).
Vm = tuple[str, int]


class VmShares:
    """Started requests of each VM, forgotten exponentially. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._started: dict[Vm, tuple[float, float]] = {}

    def add(self, batch: Batch, now_s: float) -> None:
        """Count the requests of a batch that counts."""
        started = float(node_table(batch.nodes).news.column("started").sum())
        vm = (batch.envoy, batch.incarnation)
        self._started[vm] = self._at(vm, now_s) + started, now_s

    def of(self, live: Collection[Vm], now_s: float) -> Mapping[Vm, float]:
        """The share of each live VM, in sum 1; 0 for all while nothing was started. The others
        are forgotten.
        """
        self._started = {vm: held for vm, held in self._started.items() if vm in live}
        started = {vm: self._at(vm, now_s) for vm in live}
        total = math.fsum(started.values())
        # Long after the last request nobody knows whom the next ones go to.
        if total < _CREDIT:
            return dict.fromkeys(live, 0.0)
        whole = total + _CREDIT * len(started)
        return {vm: (count + _CREDIT) / whole for vm, count in started.items()}

    def _at(self, vm: Vm, now_s: float) -> float:
        count, at_s = self._started.get(vm, (0.0, now_s))
        return count * math.pow(0.5, max(now_s - at_s, 0.0) / _HALF_LIFE_S)
