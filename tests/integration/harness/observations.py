"""What the filter's VMs reported, summed up as plainly as can be."""

from __future__ import annotations

from collections import Counter

from isocost.model import Node
from isocost.observe.batch import Batch
from isocost.observe.workers import WorkerCount


class Observations:
    """``batches`` counts the reports; nothing else grows with time. ``workers`` is by Envoy."""

    def __init__(self) -> None:
        self.batches = 0
        self.stale_choices = 0
        self.workers: dict[str, WorkerCount] = {}
        self._totals: Counter[tuple[int, str]] = Counter()
        self._open: dict[tuple[str, int], dict[int, int]] = {}

    def apply(self, batch: Batch, _: float) -> None:
        self.batches += 1
        self.stale_choices += batch.stale_choices
        vm = (batch.envoy, batch.incarnation)
        self._open[vm] = {node.node_id: node.in_flight for node in batch.nodes}
        for node in batch.nodes:
            for kind in ("started", "resets", "failed_attempts", "unknown_attempts"):
                self._totals[node.node_id, kind] += getattr(node, kind)

    def apply_workers(self, envoy: str, count: WorkerCount, _: float) -> None:
        self.workers[envoy] = count

    def in_flight(self, node: Node) -> int:
        """Open requests on the node by the last report of each VM."""
        return sum(nodes.get(node.id, 0) for nodes in self._open.values())

    def total(self, node: Node, kind: str) -> int:
        """How often that happened on the node."""
        return self._totals[node.id, kind]
