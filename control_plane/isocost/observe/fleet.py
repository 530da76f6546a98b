"""Everything the gateways observed, as one view per tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from isocost.model import Signal
from isocost.observe.batch import Batch, NodeObservation
from isocost.observe.inflight import InFlight
from isocost.observe.latency import LatencyWindow

#: The outcome counters of a node, in the order of ``NodeObservation``.
OUTCOMES = (
    "started",
    "succeeded",
    "client_errors",
    "rate_limited",
    "server_errors",
    "resets",
    "client_aborts",
    "failed_attempts",
    "unknown_attempts",
)


@dataclass
class Decisions:
    """How the filters decided since the start of this process."""

    picked: int = 0
    fallback_no_table: int = 0
    fallback_stale_table: int = 0
    fallback_no_eligible: int = 0


@dataclass(frozen=True)
class Observed:
    """The gateways' view of n nodes: open requests, the sum of their ages, mean latencies."""

    in_flight: NDArray[np.int64]
    open_age_s_sum: NDArray[np.float64]
    tpot_ms: tuple[Signal, ...]
    first_byte_ms: tuple[Signal, ...]


class FleetObserver:
    """Takes batches from every VM of every Envoy and answers what is true of each node."""

    def __init__(self, latency_window_s: float) -> None:
        self._in_flight = InFlight()
        self._tpot = LatencyWindow(latency_window_s)
        self._first_byte = LatencyWindow(latency_window_s)
        self._outcomes: dict[int, dict[str, int]] = {}
        self.decisions = Decisions()

    def apply(self, batch: Batch, now_s: float) -> None:
        """Count a batch; one that arrives twice or late counts once."""
        if not self._in_flight.apply(batch, now_s):
            return
        for kind in fields(Decisions):
            total = getattr(self.decisions, kind.name) + getattr(batch, kind.name)
            setattr(self.decisions, kind.name, total)
        for node in batch.nodes:
            self._tpot.add(node.node_id, node.tpot_ms_sum, node.tpot_count, now_s)
            self._first_byte.add(node.node_id, node.first_byte_ms_sum, node.first_byte_count, now_s)
            self._count(node)

    def _count(self, node: NodeObservation) -> None:
        totals = self._outcomes.setdefault(node.node_id, dict.fromkeys(OUTCOMES, 0))
        for name in OUTCOMES:
            totals[name] += getattr(node, name)

    def view(self, node_ids: Sequence[int], now_s: float) -> Observed:
        """The state at ``now_s``, in the order of ``node_ids``."""
        self._in_flight.expire(now_s)
        in_flight, open_age_s_sum = self._in_flight.totals(node_ids, now_s)
        return Observed(
            in_flight,
            open_age_s_sum,
            tuple(self._tpot.mean(node_id, now_s) for node_id in node_ids),
            tuple(self._first_byte.mean(node_id, now_s) for node_id in node_ids),
        )

    def outcomes(self, node_id: int) -> dict[str, int]:
        """Outcome counts of a node since it was first seen."""
        return dict(self._outcomes.get(node_id, dict.fromkeys(OUTCOMES, 0)))

    def envoys(self) -> dict[str, int]:
        """Live VMs per Envoy."""
        return self._in_flight.envoys()

    def keep(self, node_ids: Sequence[int]) -> None:
        """Forget the nodes that left the roster."""
        self._tpot.keep(node_ids)
        self._first_byte.keep(node_ids)
        wanted = set(node_ids)
        for node_id in [known for known in self._outcomes if known not in wanted]:
            del self._outcomes[node_id]
