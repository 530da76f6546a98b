"""All sources of nodes as one list: who is there, what is known of it, and since when."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from isocost.config import DiscoverySettings
from isocost.discovery.announce import Announcement, Announcements, Conflict
from isocost.discovery.file import FileNodes, in_thread
from isocost.discovery.held import Held
from isocost.discovery.listing import Source, Watch
from isocost.discovery.merge import Merged, merge
from isocost.discovery.names import Names
from isocost.discovery.probe import Probes
from isocost.discovery.report import AgentReport
from isocost.discovery.state import DiscoveryState, SourceState
from isocost.discovery.streams import SharedName
from isocost.discovery.view import FleetView, LatestSamples
from isocost.model import Node
from isocost.weight.told import Discovered

#: How often the discovery file is looked at.
FILE_PERIOD_S = 1.0

#: Nodes that only a list knows are steered by what it said last: this much later they may well be
#: other ones. A restart of Consul, or an election, takes a minute.
OLD_S = 300.0

log = logging.getLogger(__name__)


class Registry:
    """Announced nodes and those of the lists. ``started_s`` is monotonic, as every ``now_s``.

    A node of both is the announced one: its agent knows instance and address. When that agent is
    silent for so long that it is forgotten, the list is again all that is known.
    """

    def __init__(
        self,
        settings: DiscoverySettings,
        started_s: float,
        apart: Callable[[Callable[[], None]], None] = in_thread,
        watches: Sequence[Watch] = (),
    ) -> None:
        """ConfigError: the discovery file cannot be used. ``apart``: see FileNodes."""
        self._announcements = Announcements(
            settings.lost_after_ms / 1e3, settings.forget_after_ms / 1e3
        )
        self._file = (
            None if settings.file is None else FileNodes(Path(settings.file), apart, started_s)
        )
        self._watches = tuple(watches)
        #: A file has said twice what it lost: that is believed.
        self._held = [Held(source.name, 1.0) for source in self._file_sources()]
        self._held += [Held(watch.source.name) for watch in watches]
        self.names = Names()
        self.probes = Probes()
        self._looked_s = started_s
        self._settled_s = started_s + settings.settle_ms / 1e3
        self._announced = False
        self._claims: Mapping[str, Announcement] = {}
        self._conflicts: frozenset[Conflict | SharedName] = frozenset()
        #: What the fleet is made of, as identities, and the fleet.
        self._parts: tuple[object, ...] = ()
        self._yielding: frozenset[str] = frozenset()
        self._merged: Merged = merge({}, (), self.names.address)
        #: Where the samples of the fleet are, and of which claims that is true.
        self._latest = LatestSamples(())
        self._latest_of = self._merged, 0
        self._said: tuple[object, ...] = ()
        self._discovered: Discovered | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The file's and the watched ones, as they are now."""
        return (*self._file_sources(), *(watch.source for watch in self._watches))

    def configure(self, settings: DiscoverySettings) -> None:
        """Take the times of other settings: the sources stay what they are."""
        self._announcements.configure(settings.lost_after_ms / 1e3, settings.forget_after_ms / 1e3)

    def receive(self, report: AgentReport, now_s: float) -> None:
        """Take what an agent reported."""
        self._announcements.receive(report, now_s)
        self._announced = self._announced or bool(report.block.entries)

    def first_discovery_done(self, now_s: float) -> bool:
        """Are the nodes known, or was there time enough for them to show, so that an empty list is
        meant? A source that has not answered yet, or a name that is not resolved, may have nodes.
        """
        listings = [source.listing for source in self.sources]
        known = self._announced or any(listing and listing.nodes for listing in listings)
        waiting = None in listings or self.names.untried
        if not self._merged.nodes and (None in listings or self._merged.unresolved):
            return False
        return (known and not waiting) or now_s >= self._settled_s

    def view(self, now_s: float) -> FleetView:
        """Every known node, sorted by name, each name and each address once."""
        merged, moves = self._follow(now_s), self._announcements.moves
        if merged is not self._latest_of[0] or moves != self._latest_of[1]:
            self._latest = LatestSamples(merged.claims)
            self._latest_of = merged, moves
        return self._latest.view(merged.nodes, self._discovered, now_s)

    def state(self, now_s: float) -> DiscoveryState:
        """How discovery itself is, as of the last view."""
        return DiscoveryState(
            conflicts=tuple(sorted(str(conflict) for conflict in self._conflicts)),
            sources=tuple(
                SourceState(source, held.doubted, self._without_agent(held, now_s), now_s)
                for source, held in zip(self.sources, self._held, strict=True)
            ),
            unresolved={
                name: (address, self.names.error(address))
                for name, address in self._merged.unresolved.items()
            },
            stale_names=self.names.stale,
            unreachable=tuple(
                node.name for node in self._merged.nodes if self._refuses(node.address)
            ),
        )

    def old_data(self, now_s: float) -> str | None:
        """Why nodes are steered by what may not be true any more; None: they are not. A file that
        cannot be used is an operator's error, and its last list is meant to stay.
        """
        of_file = len(self._file_sources())
        for source, held in zip(self.sources[of_file:], self._held[of_file:], strict=True):
            age_s = now_s - source.confirmed_s
            if age_s <= OLD_S:
                continue
            listed = sum(item.listed for item in held.kept)
            if self._without_agent(held, now_s) > listed / 2:
                return (
                    f"the nodes of {source.name} are as of {age_s:.0f} s ago, and most of them "
                    f"have no agent that speaks: {source.error or 'it does not answer'}"
                )
        return None

    def _file_sources(self) -> tuple[Source, ...]:
        return () if self._file is None else (self._file.source,)

    def _follow(self, now_s: float) -> Merged:
        """Bring the fleet up to date; most ticks change nothing of it."""
        announced = self._announcements.announced(now_s)
        self._claims = announced.nodes
        for forgotten in announced.forgotten:
            log.warning("%s", forgotten)
        if self._file is not None and now_s - self._looked_s >= FILE_PERIOD_S:
            self._looked_s = now_s
            self._file.refresh(now_s)

        def gone(node: Node) -> bool:
            claim = announced.nodes.get(node.name)
            if claim is not None and not self._announcements.lost(claim, now_s):
                return False
            # An agent that stops takes its nodes off the list, and says nothing of the engines.
            address = self.names.address(node.address) if claim is None else claim.node.address
            return self._refuses(address)

        for source, held in zip(self.sources, self._held, strict=True):
            held.take(source, gone, announced.nodes, now_s)
        # Few are contested: that they fall silent, or speak again, is looked for each time.
        yielding = frozenset(name for name in self._merged.contested if self._silent(name, now_s))
        if yielding != self._yielding:
            self._yielding = yielding
        parts = (
            announced.nodes,
            self.names.version,
            self._yielding,
            *(held.kept for held in self._held),
        )
        if not _same(parts, self._parts):
            lists = [(held.name, held.kept) for held in self._held]
            self._parts = parts
            self._merged = merge(announced.nodes, lists, self.names.address, self._yielding)
            self.names.want(self._merged.hosts)
            self.probes.want(self._merged.probed)
        said = (self._merged, self.probes.unreachable)
        if not _same(said, self._said):
            self._said, self._discovered = said, self._merged.discovered(self.probes.unreachable)
        self._log(announced.conflicts | self._merged.conflicts)
        return self._merged

    def _refuses(self, address: str | None) -> bool:
        return address in self.probes.unreachable

    def _without_agent(self, held: Held, now_s: float) -> int:
        """How many of its nodes no agent speaks for now."""
        return sum(self._silent(item.node.name, now_s) for item in held.kept if item.listed)

    def _silent(self, name: str, now_s: float) -> bool:
        """Does no agent speak for it?"""
        claim = self._claims.get(name)
        return claim is None or self._announcements.lost(claim, now_s)

    def _log(self, conflicts: frozenset[Conflict | SharedName]) -> None:
        for conflict in sorted(map(str, conflicts - self._conflicts)):
            log.warning("%s", conflict)
        for conflict in sorted(map(str, self._conflicts - conflicts)):
            log.info("no longer: %s", conflict)
        self._conflicts = conflicts


def _same(parts: tuple[object, ...], others: tuple[object, ...]) -> bool:
    """Are they made of the very same objects?"""
    return len(parts) == len(others) and all(map(operator.is_, parts, others))
