"""What is seen of the demo's fleet while the trace runs, for the display and for the report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean

from isocost.bench.access_log import AccessLog, LoggedRequest
from isocost.bench.control_plane import ControlPlane
from isocost.bench.observer import Observer
from isocost.bench.progress import NodeView
from isocost.bench.shares import WeighedNode
from isocost.demo.fleet import DemoNode


class DemoObserver(Observer):
    """Knows the fleet's nodes before the control plane does."""

    def __init__(
        self, fleet: Sequence[DemoNode], access_log: AccessLog, control_plane: ControlPlane
    ) -> None:
        super().__init__(access_log, control_plane)
        self._fleet = fleet
        self._ended: Counter[str] = Counter()

    def read_log(self) -> list[LoggedRequest]:
        new = super().read_log()
        self._ended.update(entry.node for entry in new if entry.node is not None)
        return new

    def view(self) -> tuple[NodeView, ...]:
        """The fleet now. Requests are those that ended and, as of the last sample, those open:
        without them a node with long answers would seem to get few."""
        requests = {
            node.name: self._ended[node.name] + self._open(node.name) for node in self._fleet
        }
        total = sum(requests.values())
        return tuple(
            NodeView(
                name=node.name,
                rack=node.rack,
                gpu_kind=node.gpu_kind,
                requests=requests[node.name],
                share=requests[node.name] / total if total else None,
                status=self.latest.get(node.name),
            )
            for node in self._fleet
        )

    def _open(self, name: str) -> int:
        status = self.latest.get(name)
        return (status.in_flight or 0) if status else 0

    def weighed_nodes(self, until_s: float) -> tuple[WeighedNode, ...]:
        """The fleet with the mean of the weights sampled while requests were sent: up to
        ``until_s``."""
        weights: defaultdict[str, list[float]] = defaultdict(list)
        for sample in self.samples:
            for node in sample.nodes or ():
                if sample.at_s <= until_s and node.weight is not None:
                    weights[node.name].append(node.weight)
        return tuple(
            WeighedNode(
                node.name, node.rack, fmean(weights[node.name]) if weights[node.name] else None
            )
            for node in self._fleet
        )
