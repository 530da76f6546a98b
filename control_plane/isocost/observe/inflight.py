"""Open requests and their work per node, summed over the VMs of every Envoy that is alive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocost.observe.batch import Batch, Columns, node_table
from isocost.observe.rows import Ids, RowNumbers, Rows
from isocost.observe.window import grown

#: A VM reports five times a second, also when idle; one that missed fifteen reports is gone, and
#: its open requests went with it.
VM_GONE_S = 3.0

#: A silent Envoy may be cut off and serve on; one that stays away this long is not waited for, or
#: a gateway that was taken down for good would keep its nodes from ever being known to be empty.
ENVOY_MISSED_S = 60.0

#: What is open on a node: how many requests, the sum of their starting times in whole milliseconds,
#: their pending tokens and their KV tokens. Whole numbers: adding and taking away for months stays
#: exact.
_COUNT, _START_MS, _PENDING_TOKENS, _KV_TOKENS = range(4)
_KINDS = 4


class _Held(NamedTuple):
    """What one VM has open: on which rows [m], and what there [m, 4]."""

    rows: Rows
    shares: NDArray[np.int64]


_NOTHING = _Held(np.zeros(0, dtype=np.intp), np.zeros((0, _KINDS), dtype=np.int64))


class InFlight:
    """Exact sums: a VM's report replaces its previous one, a vanished VM takes its counts along."""

    def __init__(self) -> None:
        self._rows = RowNumbers()
        self._vms: dict[tuple[str, int], _Held] = {}
        self._seen_s: dict[tuple[str, int], float] = {}
        self._sequence: dict[tuple[str, int], int] = {}
        #: The sums, one row per node.
        self._open = np.zeros((0, _KINDS), dtype=np.int64)
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
        held = node_table(batch.nodes).open
        self._replace(vm, _held(held, self._rows_of_array(held.ids), int(now_s * 1e3)))
        return True

    def expire(self, now_s: float) -> None:
        """Drop the VMs that were silent longer than ``VM_GONE_S``."""
        gone = [vm for vm, seen_s in self._seen_s.items() if now_s - seen_s > VM_GONE_S]
        for vm in gone:
            _, missed = self._missed.get(vm[0], (0.0, frozenset[int]()))
            if held := missed.union(self._ids_of(self._vms[vm].rows)):
                self._missed[vm[0]] = (now_s, held)
            self._replace(vm, _NOTHING)
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
        rows = self._rows_of(node_ids)
        share = self._open[rows]
        count, start_ms_sum = share[:, _COUNT], share[:, _START_MS]
        return count, np.maximum(count * int(now_s * 1e3) - start_ms_sum, 0) / 1e3

    def any_open(self, node_id: int) -> bool:
        row = self._rows.get(node_id)
        return row is not None and bool(self._open[row, _COUNT] > 0)

    def work(self, node_ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pending tokens [n] and KV tokens [n] of the open requests."""
        rows = self._rows_of(node_ids)
        share = self._open[rows]
        return share[:, _PENDING_TOKENS], share[:, _KV_TOKENS]

    def keep(self, node_ids: Sequence[int]) -> None:
        """Forget the nodes that left the roster, but those where a VM still has requests open."""
        own, everyone = frozenset(node_ids), self._rows.ids()
        more = [everyone[row] for row in np.flatnonzero(self._open[:, _COUNT]).tolist()]
        kept = [*node_ids, *(node_id for node_id in more if node_id not in own)]
        former = self._rows_of(kept)
        place = np.full(len(self._open), -1, dtype=np.intp)
        place[former] = np.arange(len(kept))
        self._open = self._open[former]
        self._rows.keep(kept)
        # A row with requests open was kept.
        self._vms = {vm: _Held(place[rows], shares) for vm, (rows, shares) in self._vms.items()}

    def _rows_of(self, node_ids: Sequence[int]) -> Rows:
        rows = self._rows.of(node_ids)
        self._open = grown(self._open, len(self._rows))
        return rows

    def _rows_of_array(self, node_ids: Ids) -> Rows:
        rows = self._rows.of_array(node_ids)
        self._open = grown(self._open, len(self._rows))
        return rows

    def _ids_of(self, rows: Rows) -> list[int]:
        everyone = self._rows.ids()
        return [everyone[row] for row in rows.tolist()]

    def _replace(self, vm: tuple[str, int], held: _Held) -> None:
        """Put what the VM has in place of what it had; of a row that is told twice the last
        counts, both times.
        """
        former = self._vms.get(vm, _NOTHING)
        if np.array_equal(former.rows, held.rows):
            # As +=, but that takes twice as long where rows are many.
            of_rows = self._open.take(held.rows, axis=0)
            self._open[held.rows] = of_rows + (held.shares - former.shares)
        else:
            self._open[former.rows] -= former.shares
            self._open[held.rows] += held.shares
        self._vms[vm] = held


def _held(state: Columns, rows: Rows, now_ms: int) -> _Held:
    """What is open by a batch that was taken at ``now_ms``."""
    numbers = state.columns(("in_flight", "open_age_s_sum", "pending_tokens", "kv_tokens"))
    some = numbers[:, _COUNT] > 0
    if not some.all():
        rows, numbers = rows[some], numbers[some]
    numbers[:, _START_MS] *= 1e3
    result = numbers.astype(np.int64)
    result[:, _START_MS] = result[:, _COUNT] * now_ms - result[:, _START_MS]
    return _Held(rows, result)
