"""What is seen of the fleet while the trace runs, for the display and for the report."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from isocost.bench.access_log import AccessLog, LoggedRequest
from isocost.bench.assemble import WeighedNode
from isocost.demo.control_plane import ControlPlane, NodeStatus
from isocost.demo.fleet import DemoNode

_POLL_S = 0.1
#: Envoy is told to write its log every 0.2 s.
_FLUSH_DEADLINE_S = 3.0


@dataclass(frozen=True, slots=True)
class NodeView:
    """One line of the display; None = not known at the moment."""

    node: DemoNode
    requests: int
    share: float | None
    status: NodeStatus | None


class Observer:
    """Follows Envoy's access log and samples the weights from the control plane."""

    def __init__(
        self, fleet: Sequence[DemoNode], access_log: AccessLog, control_plane: ControlPlane
    ) -> None:
        self._fleet = fleet
        self._access_log = access_log
        self._control_plane = control_plane
        self._ended: Counter[str] = Counter()
        self._weights: defaultdict[str, list[float]] = defaultdict(list)
        self._latest: dict[str, NodeStatus] = {}
        self.log: list[LoggedRequest] = []

    def read_log(self) -> None:
        """Take what Envoy has logged since the last call."""
        new = self._access_log.read_new()
        self.log += new
        self._ended.update(entry.node for entry in new if entry.node is not None)

    async def read_log_until(self, expected: int) -> None:
        """Read on until that many requests are logged, or Envoy has had time enough to flush."""
        deadline_s = time.monotonic() + _FLUSH_DEADLINE_S
        while len(self.log) < expected and time.monotonic() < deadline_s:
            await asyncio.sleep(_POLL_S)
            self.read_log()

    async def sample(self, *, weigh: bool) -> None:
        """Ask for the nodes once. ``weigh``: their weights count for the mean over the run; do it
        at even intervals, and only while requests are still being sent."""
        nodes = await self._control_plane.nodes()
        self._latest = {node.name: node for node in nodes or ()}
        for node in nodes or ():
            if weigh and node.weight is not None:
                self._weights[node.name].append(node.weight)

    def view(self) -> tuple[NodeView, ...]:
        """The fleet now. Requests are those that ended and, as of the last sample, those open:
        without them a node with long answers would seem to get few."""
        requests = {
            node.name: self._ended[node.name] + self._open(node.name) for node in self._fleet
        }
        total = sum(requests.values())
        return tuple(
            NodeView(
                node=node,
                requests=requests[node.name],
                share=requests[node.name] / total if total else None,
                status=self._latest.get(node.name),
            )
            for node in self._fleet
        )

    def _open(self, name: str) -> int:
        status = self._latest.get(name)
        return (status.in_flight or 0) if status else 0

    def weighed_nodes(self) -> tuple[WeighedNode, ...]:
        """The fleet with the mean of the weights sampled so far."""
        return tuple(
            WeighedNode(node.name, node.rack, _mean(self._weights[node.name]))
            for node in self._fleet
        )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
