"""Open requests and their work per node, summed over the VMs of every Envoy that is alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from isocost.observe.batch import Batch

#: A VM reports five times a second, also when idle; one that missed fifteen reports is gone, and
#: its open requests went with it.
VM_GONE_S = 3.0

#: A silent Envoy may be cut off and serve on; one that stays away this long is not waited for, or
#: a gateway that was taken down for good would keep its nodes from ever being known to be empty.
ENVOY_MISSED_S = 60.0

#: What is open on a node: how many requests, the sum of their starting times in whole milliseconds,
#: their pending tokens and their KV tokens. Whole numbers: adding and taking away for months stays
#: exact.
_Share = tuple[int, int, int, int]
_NOTHING: _Share = (0, 0, 0, 0)


class InFlight:
    """Exact sums: a VM's report replaces its previous one, a vanished VM takes its counts along."""

    def __init__(self) -> None:
        self._vms: dict[tuple[str, int], Mapping[int, _Share]] = {}
        self._seen_s: dict[tuple[str, int], float] = {}
        self._sequence: dict[tuple[str, int], int] = {}
        self._open: dict[int, _Share] = {}
        #: By Envoy that fell silent with open requests: since when, and on which nodes.
        self._missed: dict[str, tuple[float, frozenset[int]]] = {}

    def apply(self, batch: Batch, now_s: float) -> bool:
        """Take a batch; False if it is older than one that was taken already."""
        vm = (batch.envoy, batch.incarnation)
        if batch.sequence <= self._sequence.get(vm, -1):
            return False
        # An Envoy speaks for all VMs that it has: one that stays away took its requests along.
        self._missed.pop(batch.envoy, None)
        self._sequence[vm] = batch.sequence
        self._seen_s[vm] = now_s
        now_ms = int(now_s * 1e3)
        self._replace(
            vm,
            {
                node.node_id: (
                    node.in_flight,
                    node.in_flight * now_ms - int(node.open_age_s_sum * 1e3),
                    node.pending_tokens,
                    node.kv_tokens,
                )
                for node in batch.nodes
                if node.in_flight
            },
        )
        return True

    def expire(self, now_s: float) -> None:
        """Drop the VMs that were silent longer than ``VM_GONE_S``."""
        gone = [vm for vm, seen_s in self._seen_s.items() if now_s - seen_s > VM_GONE_S]
        for vm in gone:
            _, missed = self._missed.get(vm[0], (0.0, frozenset[int]()))
            if held := missed.union(self._vms[vm]):
                self._missed[vm[0]] = (now_s, held)
            self._replace(vm, {})
            del self._vms[vm], self._seen_s[vm], self._sequence[vm]
        for envoy, (since_s, _) in list(self._missed.items()):
            if now_s - since_s > ENVOY_MISSED_S:
                del self._missed[envoy]

    def live(self) -> dict[tuple[str, int], int]:
        """By (Envoy, incarnation) of each live VM: the sequence of the last batch that counts."""
        return {vm: self._sequence[vm] for vm in self._seen_s}

    def envoys(self) -> set[str]:
        """Those with a live VM."""
        return {envoy for envoy, _ in self._seen_s}

    def known(self, node_ids: Sequence[int]) -> NDArray[np.bool_]:
        """Are the counts [n] all that is open? Not while nobody speaks, and not where an Envoy had
        requests open when it fell silent: unknown is not zero.
        """
        if not self._seen_s:
            return np.zeros(len(node_ids), dtype=np.bool_)
        if not self._missed:
            return np.ones(len(node_ids), dtype=np.bool_)
        missed = frozenset[int]().union(*(nodes for _, nodes in self._missed.values()))
        return np.array([node_id not in missed for node_id in node_ids], dtype=np.bool_)

    def totals(
        self, node_ids: Sequence[int], now_s: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Open requests [n] and the sum of their ages in seconds [n]."""
        shares = [self._open.get(node_id, _NOTHING) for node_id in node_ids]
        count = np.array([share[0] for share in shares], dtype=np.int64)
        start_ms_sum = np.array([share[1] for share in shares], dtype=np.int64)
        return count, np.maximum(count * int(now_s * 1e3) - start_ms_sum, 0) / 1e3

    def work(self, node_ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pending tokens [n] and KV tokens [n] of the open requests."""
        shares = [self._open.get(node_id, _NOTHING) for node_id in node_ids]
        return (
            np.array([share[2] for share in shares], dtype=np.int64),
            np.array([share[3] for share in shares], dtype=np.int64),
        )

    def _replace(self, vm: tuple[str, int], shares: Mapping[int, _Share]) -> None:
        """Put the VM's shares in place of its former ones."""
        for node_id, share in self._vms.get(vm, {}).items():
            held = self._open[node_id]
            if held[0] == share[0]:
                del self._open[node_id]
            else:
                self._open[node_id] = _added(held, share, -1)
        for node_id, share in shares.items():
            self._open[node_id] = _added(self._open.get(node_id, _NOTHING), share, 1)
        self._vms[vm] = shares


def _added(held: _Share, share: _Share, sign: int) -> _Share:
    return (
        held[0] + sign * share[0],
        held[1] + sign * share[1],
        held[2] + sign * share[2],
        held[3] + sign * share[3],
    )
