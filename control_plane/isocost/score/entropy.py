"""Entropy: the cost that a node carries now, comparable over mixed GPU kinds (document A)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.config import EntropySettings
from isocost.model import Node
from isocost.score.columns import Floats
from isocost.score.telemetry import FleetTelemetry

#: Document A: net_io is what was moved in the last 5 s.
NET_WINDOW_S = 5.0


@dataclass(frozen=True)
class EntropyTerms:
    """The terms of E, each [n] and >= 0, and the capacity that divides their sum."""

    kv: Floats
    age: Floats
    net: Floats
    queue: Floats
    capacity: Floats

    def of(self, rows: NDArray[np.intp]) -> EntropyTerms:
        """The nodes in these places."""
        return EntropyTerms(
            self.kv[rows], self.age[rows], self.net[rows], self.queue[rows], self.capacity[rows]
        )

    @property
    def whole(self) -> Floats:
        """What the node carries, whatever it can."""
        result: Floats = self.kv + self.age + self.net + self.queue
        return result

    @property
    def total(self) -> Floats:
        result: Floats = self.whole / self.capacity
        return result


def entropy_terms(
    fleet: FleetTelemetry,
    open_age_s_sum: Floats,
    capacity: Floats,
    settings: EntropySettings,
) -> EntropyTerms:
    """E = kv GB + sum of open requests' ages / concurrency + MB per slot + waiting, over capacity.

    Ages are summed over the reference concurrency, and so is the traffic: a mean over the open
    requests would fall as load rises, and adding a request must never lower E.
    ``open_age_s_sum`` [n] is that of ``open_ages``; ``capacity`` [n] is relative to the reference
    card.
    """
    usage = np.clip(fleet.kv_usage.filled(default=0.0), 0.0, 1.0)
    kv_used_gb = np.maximum(fleet.kv_pool_bytes.filled(default=0.0), 0.0) * usage / 1e9
    net_mb = np.maximum(fleet.net_bytes_per_s.filled(default=0.0), 0.0) * NET_WINDOW_S / 1e6
    waiting = np.maximum(fleet.waiting.filled(default=0.0), 0.0)
    return EntropyTerms(
        kv=settings.kv_per_gb * kv_used_gb,
        age=settings.age_per_s * open_age_s_sum / settings.reference_concurrency,
        net=settings.net_per_mb * net_mb / settings.reference_concurrency,
        queue=settings.waiting_request * waiting,
        capacity=capacity,
    )


def node_capacity(nodes: Sequence[Node], settings: EntropySettings) -> Floats:
    """What each node absorbs relative to one reference card, [n]: its cards times their kind."""
    return np.array(
        [settings.capacity.get(node.gpu_kind, 1.0) * node.gpu_count for node in nodes],
        dtype=np.float64,
    )
