"""What is seen of the demo's fleet while the trace runs, for the display and for the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from isocost.bench.access_log import AccessLog, LoggedRequest
from isocost.bench.control_plane import ControlPlane
from isocost.bench.observer import Observer
from isocost.bench.progress import NodeView
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
