"""One source's nodes, held on to: a list that loses most of them at once is not believed.

Consul answers with nothing after a restart, and with too little after an election. So each node
that a list says is lost is either believed, or doubted until its own health says the same.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from isocost.discovery.listing import Check, Listing, Source
from isocost.model import Node
from isocost.output import named
from isocost.weight.told import Told

#: Losses that are no further apart add up. A rolling update has its nodes back long before, and a
#: fleet that shrinks faster waits only until its nodes are seen to be gone.
WINDOW_S = 300.0
#: More than this part of what was there is not believed.
MOST = 0.5

_TOLD: Mapping[Check, Told] = {
    Check.PASSING: Told.NOTHING,
    Check.WARNING: Told.WARNING,
    Check.AGENT_LATE: Told.LATE,
    Check.CRITICAL: Told.CRITICAL,
    Check.MAINTENANCE: Told.MAINTENANCE,
}
_LOST = frozenset((Told.WITHDRAWN, Told.LATE, Told.CRITICAL))
_GOOD = frozenset((Told.NOTHING, Told.WARNING))

log = logging.getLogger(__name__)


class Kept(NamedTuple):
    """A node as its source has it. ``listed``: it is on the list, or held on it; if not, ``told``
    is the last word on a node that others may name. ``doubted``: what the source says of it and is
    not believed.
    """

    node: Node
    told: Told
    listed: bool
    doubted: Told | None = None


@dataclass(slots=True)
class _Entry:
    """``believed_s``: when its loss was believed without its own word, -inf: it was none."""

    node: Node
    told: Told
    listed: bool = True
    believed_s: float = -math.inf


class Held:
    """The nodes of one source. Of those that were good, no more than ``most`` are lost within
    WINDOW_S by its word alone, and none by that of a source that went back in its own history and
    may have forgotten them. Beyond that each stays until its own health confirms the loss, it is
    good again, or, after WINDOW_S, the others are back, so that it is no more than that any longer.
    """

    def __init__(self, name: str, most: float = MOST) -> None:
        self.name = name
        self._most = most
        self._listing: Listing | None = None
        self._resets = 0
        self._entries: dict[str, _Entry] = {}
        self._announced: Container[str] = ()
        #: Since when the loss of each is doubted; one that is new is so until it is judged.
        self._doubted: dict[str, float] = {}
        #: The same object while nothing of it changes.
        self.kept: tuple[Kept, ...] = ()

    @property
    def doubted(self) -> dict[str, Told]:
        """By node: what the source says of it and is not believed."""
        return {name: self._entries[name].told for name in sorted(self._doubted)}

    def take(
        self,
        source: Source,
        gone: Callable[[Node], bool],
        announced: Container[str],
        now_s: float,
    ) -> None:
        """Follow the source's last good answer. ``gone``: does the node's own health say that it is
        lost? ``announced``: nodes that agents name.
        """
        listing, before = source.listing, set(self._doubted)
        changed = listing is not None and listing is not self._listing
        forgetful = source.resets != self._resets
        self._resets = source.resets
        if announced is not self._announced:
            self._announced = announced
            changed |= self._forget_silent(announced, now_s)
        if listing is not None and listing is not self._listing:
            self._listing = listing
            self._read(listing, announced, now_s)
        if (changed or self._doubted) and not forgetful:
            self._believe(now_s)
        confirmed = {name for name in self._doubted if gone(self._entries[name].node)}
        for name in confirmed:
            del self._doubted[name]
        if changed or self._doubted.keys() != before:
            self._log(before, confirmed)
            self.kept = tuple(map(self._kept, self._entries))

    def _read(self, listing: Listing, announced: Container[str], now_s: float) -> None:
        said = {item.node.name: item for item in listing.nodes}
        addresses = {item.node.address for item in listing.nodes}
        for name, entry in list(self._entries.items()):
            if name in said:
                continue
            if entry.node.address in addresses:
                # Another one has its place.
                self._doubted.pop(name, None)
                entry.told = Told.WITHDRAWN
            elif entry.listed and entry.told is not Told.MAINTENANCE:
                # Who took it out of service before it was withdrawn meant that.
                self._tell(name, entry, Told.WITHDRAWN, now_s)
            entry.listed = False
            self._forget(name, entry, announced, now_s)
        for name, item in said.items():
            found = self._entries.setdefault(name, _Entry(item.node, _TOLD[item.check]))
            found.node, found.listed = item.node, True
            self._tell(name, found, _TOLD[item.check], now_s)

    def _tell(self, name: str, entry: _Entry, told: Told, now_s: float) -> None:
        if told in _LOST and entry.told in _GOOD:
            self._doubted[name] = now_s
        elif told not in _LOST:
            self._doubted.pop(name, None)
            entry.believed_s = -math.inf
        entry.told = told

    def _forget(self, name: str, entry: _Entry, announced: Container[str], now_s: float) -> None:
        """What was withdrawn counts for a while, and as long as its agent names it."""
        counts = name in self._doubted or now_s - entry.believed_s <= WINDOW_S
        if not counts and name not in announced:
            del self._entries[name]

    def _forget_silent(self, announced: Container[str], now_s: float) -> bool:
        """Is there less to keep, now that agents name others?"""
        before = len(self._entries)
        for name, entry in list(self._entries.items()):
            if not entry.listed:
                self._forget(name, entry, announced, now_s)
        return len(self._entries) < before

    def _believe(self, now_s: float) -> None:
        """Believe the losses of now, and those that are doubted long, if all of them are not too
        many. In between those that come back do so one by one: half of them is no end of that.
        """
        due = [name for name, since_s in self._doubted.items() if _due(since_s, now_s)]
        if not due:
            return
        good = sum(entry.told in _GOOD for entry in self._entries.values())
        lately = sum(now_s - entry.believed_s <= WINDOW_S for entry in self._entries.values())
        lost = lately + len(self._doubted)
        if lost <= self._most * (good + lost):
            for name in due:
                self._entries[name].believed_s = now_s
                del self._doubted[name]

    def _kept(self, name: str) -> Kept:
        entry = self._entries[name]
        if name in self._doubted:
            return Kept(entry.node, Told.NOTHING, listed=True, doubted=entry.told)
        return Kept(entry.node, entry.told, entry.listed)

    def _log(self, before: set[str], confirmed: set[str]) -> None:
        if confirmed:
            log.warning("%s: they are gone indeed: %s", self.name, named(sorted(confirmed)))
        if new := self._doubted.keys() - before:
            log.warning(
                "%s lost nodes, too many or as one that forgot them, which is not believed: they "
                "stay until they are seen to be gone: %s",
                self.name,
                named(sorted(new)),
            )
        there = {name for name, entry in self._entries.items() if entry.listed}
        left = {kept.node.name for kept in self.kept if kept.listed} - there - self._doubted.keys()
        if left - confirmed:
            log.info(
                "%s does not list them any more: %s", self.name, named(sorted(left - confirmed))
            )
        if before and not self._doubted:
            log.info("%s: nothing that it says of its nodes is doubted any more", self.name)


def _due(since_s: float, now_s: float) -> bool:
    return since_s == now_s or now_s - since_s > WINDOW_S
