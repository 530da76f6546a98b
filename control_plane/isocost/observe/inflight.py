"""Open requests per node, summed over the VMs of every Envoy that is alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.observe.batch import Batch

#: A VM reports five times a second, also when idle; one that missed fifteen reports is gone, and
#: its open requests went with it.
VM_GONE_S = 3.0


@dataclass(frozen=True, slots=True)
class _Share:
    """What one VM holds open on one node: the count, and the sum of the starting times."""

    count: int
    start_s_sum: float


class InFlight:
    """Exact sums: a VM's report replaces its previous one, a vanished VM takes its counts along."""

    def __init__(self) -> None:
        self._vms: dict[tuple[str, int], dict[int, _Share]] = {}
        self._seen_s: dict[tuple[str, int], float] = {}
        self._sequence: dict[tuple[str, int], int] = {}

    def apply(self, batch: Batch, now_s: float) -> bool:
        """Take a batch; False if it is older than one that was taken already."""
        vm = (batch.envoy, batch.incarnation)
        if batch.sequence <= self._sequence.get(vm, -1):
            return False
        self._sequence[vm] = batch.sequence
        self._seen_s[vm] = now_s
        self._vms[vm] = {
            node.node_id: _Share(node.in_flight, node.in_flight * now_s - node.open_age_s_sum)
            for node in batch.nodes
            if node.in_flight
        }
        return True

    def expire(self, now_s: float) -> None:
        """Drop the VMs that were silent longer than ``VM_GONE_S``."""
        gone = [vm for vm, seen_s in self._seen_s.items() if now_s - seen_s > VM_GONE_S]
        for vm in gone:
            del self._vms[vm], self._seen_s[vm], self._sequence[vm]

    def envoys(self) -> dict[str, int]:
        """Live VMs per Envoy."""
        counts: dict[str, int] = {}
        for envoy, _ in self._seen_s:
            counts[envoy] = counts.get(envoy, 0) + 1
        return counts

    def totals(
        self, node_ids: Sequence[int], now_s: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Open requests [n] and the sum of their ages in seconds [n]."""
        row = {node_id: index for index, node_id in enumerate(node_ids)}
        count = np.zeros(len(node_ids), dtype=np.int64)
        start_s_sum = np.zeros(len(node_ids), dtype=np.float64)
        for shares in self._vms.values():
            for node_id, share in shares.items():
                index = row.get(node_id)
                if index is not None:
                    count[index] += share.count
                    start_s_sum[index] += share.start_s_sum
        return count, np.maximum(count * now_s - start_s_sum, 0.0)
