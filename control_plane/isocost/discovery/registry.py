"""All sources of nodes as one list: who is there, what is known of it, and since when."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isocost.config import DiscoverySettings
from isocost.discovery.announce import Announcement, Announcements, Conflict
from isocost.discovery.file import FileNodes, in_thread
from isocost.discovery.report import AgentReport
from isocost.model import Node, NodeSample
from isocost.score.columns import Floats

#: How often the discovery file is looked at.
FILE_PERIOD_S = 1.0

log = logging.getLogger(__name__)


class NodeView(NamedTuple):
    """One node as discovery sees it.

    ``sample_age_s`` is the time since the sample arrived, infinite without one;
    ``clock_offset_s`` is the node's clock less this machine's, NaN without a sample.
    """

    node: Node
    sample: NodeSample | None
    sample_age_s: float
    clock_offset_s: float


@dataclass(frozen=True, slots=True)
class FleetView:
    """All nodes as discovery sees them, [n] each: what NodeView has of one. ``nodes`` is the same
    object while these are the same nodes.
    """

    nodes: tuple[Node, ...]
    samples: tuple[NodeSample | None, ...]
    ages_s: Floats
    clock_offsets_s: Floats

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[NodeView]:
        """One by one."""
        columns = self.nodes, self.samples, self.ages_s.tolist(), self.clock_offsets_s.tolist()
        return map(NodeView, *columns)


class _Unheard:
    """Stands in for the announcement of a node that nobody announced."""

    sample = None
    arrived_s = -math.inf
    clock_offset_s = math.nan


_UNHEARD = _Unheard()


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
        self._merged: _Merged | None = None

    @property
    def conflicts(self) -> tuple[str, ...]:
        """What was claimed twice at the last view."""
        return tuple(sorted(str(conflict) for conflict in self._conflicts))

    @property
    def file_error(self) -> str | None:
        """Why the discovery file of now is not the one in use; None = it is, or there is none."""
        error = None if self._file is None else self._file.error
        return None if error is None else str(error)

    def configure(self, settings: DiscoverySettings) -> None:
        """Take the times of other settings: the sources stay what they are."""
        self._announcements.configure(settings.lost_after_ms / 1e3, settings.forget_after_ms / 1e3)

    def receive(self, report: AgentReport, now_s: float) -> None:
        """Take what an agent reported."""
        self._announcements.receive(report, now_s)
        self._known = self._known or bool(report.samples)

    def first_discovery_done(self, now_s: float) -> bool:
        """Nodes are known, or there was time enough for them to show: an empty list is meant."""
        return self._known or now_s >= self._settled_s

    def view(self, now_s: float) -> FleetView:
        """Every known node, sorted by name, each name and each address once."""
        announced = self._announcements.announced(now_s)
        for forgotten in announced.forgotten:
            log.warning("%s", forgotten)
        listed, merged = self._file_nodes(now_s), self._merged
        if merged is None or not merged.of(announced.nodes, listed):
            merged = self._merged = _merge(announced.nodes, listed)
        self._log(announced.conflicts | merged.conflicts)
        claims = merged.claims
        return FleetView(
            merged.nodes,
            tuple([claim.sample for claim in claims]),
            now_s - np.array([claim.arrived_s for claim in claims], dtype=np.float64),
            np.array([claim.clock_offset_s for claim in claims], dtype=np.float64),
        )

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


@dataclass(frozen=True, slots=True)
class _Merged:
    """What is ``announced`` and what the file ``listed`` as one list sorted by name."""

    announced: Mapping[str, Announcement]
    listed: tuple[Node, ...]
    nodes: tuple[Node, ...]
    claims: tuple[Announcement | _Unheard, ...]
    conflicts: frozenset[Conflict]

    def of(self, announced: Mapping[str, Announcement], listed: tuple[Node, ...]) -> bool:
        """Is it made of these very objects?"""
        return self.announced is announced and self.listed is listed


def _merge(announced: Mapping[str, Announcement], listed: tuple[Node, ...]) -> _Merged:
    """Add the nodes of the file that nobody announced."""
    nodes = {name: claim.sample.node for name, claim in announced.items()}
    addresses = {name: node.address for name, node in nodes.items()}
    holders = {address: name for name, address in addresses.items()}
    conflicts: set[Conflict] = set()
    for node in listed:
        address, holder = addresses.get(node.name), holders.get(node.address)
        if address is not None and address != node.address:
            conflicts.add(Conflict(f"node {node.name}", "its agent", "the file's other address"))
        elif address is None and holder is not None:
            conflicts.add(
                Conflict(f"address {node.address}", f"node {holder}", f"the file's {node.name}")
            )
        elif address is None:
            nodes[node.name], addresses[node.name] = node, node.address
    names = sorted(nodes)
    return _Merged(
        announced,
        listed,
        tuple(nodes[name] for name in names),
        tuple(announced.get(name, _UNHEARD) for name in names),
        frozenset(conflicts),
    )
