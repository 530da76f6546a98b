"""All sources of nodes as one list: who is there, what is known of it, and since when."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from isocost.config import DiscoverySettings
from isocost.discovery.announce import Announcements, Conflict
from isocost.discovery.file import FileNodes, in_thread
from isocost.discovery.report import AgentReport
from isocost.model import Node, NodeSample

#: How often the discovery file is looked at.
FILE_PERIOD_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as discovery sees it.

    ``sample_age_s`` is the time since the sample arrived, infinite without one;
    ``clock_offset_s`` is the node's clock less this machine's, None without a sample.
    """

    node: Node
    sample: NodeSample | None
    sample_age_s: float
    clock_offset_s: float | None = None


class Registry:
    """Announced nodes and those of the file. ``started_s`` is monotonic, as every ``now_s``.

    A node of both is the announced one: its agent knows instance and address. When that agent is
    silent for so long that it is forgotten, the file is again all that is known.
    """

    def __init__(
        self,
        settings: DiscoverySettings,
        started_s: float,
        apart: Callable[[Callable[[], None]], None] = in_thread,
    ) -> None:
        """ConfigError: the discovery file cannot be used. ``apart``: see FileNodes."""
        self._announcements = Announcements(
            settings.lost_after_ms / 1e3, settings.forget_after_ms / 1e3
        )
        self._file = None if settings.file is None else FileNodes(Path(settings.file), apart)
        self._looked_s = started_s
        self._settled_s = started_s + settings.settle_ms / 1e3
        self._known = self._file is not None and bool(self._file.nodes)
        self._conflicts: frozenset[Conflict] = frozenset()

    @property
    def conflicts(self) -> tuple[str, ...]:
        """What was claimed twice at the last view."""
        return tuple(sorted(str(conflict) for conflict in self._conflicts))

    @property
    def file_error(self) -> str | None:
        """Why the discovery file of now is not the one in use; None = it is, or there is none."""
        error = None if self._file is None else self._file.error
        return None if error is None else str(error)

    def receive(self, report: AgentReport, now_s: float) -> None:
        """Take what an agent reported."""
        self._announcements.receive(report, now_s)
        self._known = self._known or bool(report.samples)

    def first_discovery_done(self, now_s: float) -> bool:
        """Nodes are known, or there was time enough for them to show: an empty list is meant."""
        return self._known or now_s >= self._settled_s

    def view(self, now_s: float) -> tuple[NodeView, ...]:
        """Every known node, sorted by name, each name and each address once."""
        announced = self._announcements.announced(now_s)
        for forgotten in announced.forgotten:
            log.warning("%s", forgotten)
        views = {
            name: NodeView(
                node=claim.sample.node,
                sample=claim.sample,
                sample_age_s=now_s - claim.arrived_s,
                clock_offset_s=claim.report.clock_offset_s + claim.sample.clock_offset_s,
            )
            for name, claim in announced.nodes.items()
        }
        self._log(announced.conflicts | _add_file(views, self._file_nodes(now_s)))
        return tuple(views[name] for name in sorted(views))

    def _file_nodes(self, now_s: float) -> tuple[Node, ...]:
        if self._file is None:
            return ()
        if now_s - self._looked_s >= FILE_PERIOD_S:
            self._looked_s = now_s
            self._file.refresh(now_s)
        return self._file.nodes

    def _log(self, conflicts: frozenset[Conflict]) -> None:
        for conflict in sorted(map(str, conflicts - self._conflicts)):
            log.warning("%s", conflict)
        for conflict in sorted(map(str, self._conflicts - conflicts)):
            log.info("no longer: %s", conflict)
        self._conflicts = conflicts


def _add_file(views: dict[str, NodeView], nodes: Iterable[Node]) -> frozenset[Conflict]:
    """Add the nodes of the file that nobody announced."""
    holders = {view.node.address: name for name, view in views.items()}
    conflicts: set[Conflict] = set()
    for node in nodes:
        view = views.get(node.name)
        holder = holders.get(node.address)
        if view is not None and view.node.address != node.address:
            conflicts.add(Conflict(f"node {node.name}", "its agent", "the file's other address"))
        elif view is None and holder is not None:
            conflicts.add(
                Conflict(f"address {node.address}", f"node {holder}", f"the file's {node.name}")
            )
        elif view is None:
            views[node.name] = NodeView(node, None, math.inf)
    return frozenset(conflicts)
