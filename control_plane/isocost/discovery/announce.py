"""The built-in registry: nodes that agents announce, the latest sample of each, and conflicts.

The time comes in as an argument: monotonic seconds of the control plane.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from isocost.discovery.report import AgentReport
from isocost.discovery.streams import SharedName, Streams
from isocost.model import Node
from isocost.score.block import Entry

#: So many names are enough to know what happened.
_LISTED = 20


@dataclass(slots=True)
class Heard:
    """An agent's latest report, and when it came. All claims that it made share it, so that the
    next report of the same nodes replaces it for all of them at once.
    """

    report: AgentReport
    arrived_s: float


@dataclass(slots=True)
class Announcement:
    """An agent's claim on a node, and where the node's latest sample is in what was heard last."""

    entry: Entry
    heard: Heard

    @property
    def node(self) -> Node:
        return self.entry.node

    @property
    def report(self) -> AgentReport:
        return self.heard.report

    @property
    def arrived_s(self) -> float:
        return self.heard.arrived_s

    @property
    def claimant(self) -> str:
        return f"agent {self.report.agent} on {self.node.host}"

    @property
    def start_epoch(self) -> int:
        """Unix seconds at which the instance started: that it is a number was checked."""
        return int(self.node.instance_id.rpartition("@")[2])


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two living claims on one thing; the loser gets no traffic."""

    what: str
    winner: str
    loser: str

    def __str__(self) -> str:
        return f"{self.what} is claimed by {self.winner} and by {self.loser}; {self.winner} has it"


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Nodes that one agent announced and that nobody has named for too long. ``silent``: it told
    of nothing else either.
    """

    agent: str
    silent: bool
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        why = "is silent" if self.silent else "does not name them any more"
        listed = ", ".join(self.nodes[:_LISTED]) + (", ..." if len(self.nodes) > _LISTED else "")
        return f"out of the roster, since agent {self.agent} {why}: {listed}"


@dataclass(frozen=True, slots=True)
class Announced:
    """The announced nodes by name, each name and each address once, and those that were dropped
    since the last time. ``nodes`` is the same object for as long as these are the same nodes.
    """

    nodes: Mapping[str, Announcement]
    conflicts: frozenset[Conflict | SharedName]
    forgotten: tuple[Forgotten, ...] = ()


class Announcements:
    """After ``lost_after_s`` of silence anyone may take a node over; after ``forget_after_s`` it
    is forgotten. A stream that ends removes nothing: only silence does.
    """

    def __init__(self, lost_after_s: float, forget_after_s: float) -> None:
        self._lost_after_s = lost_after_s
        self._forget_after_s = forget_after_s
        # By node name, then by agent and host: both in the order of their first claim.
        self._claims: dict[str, dict[tuple[str, str], Announcement]] = {}
        #: By agent: its last report, if all claims that it made are as it says, and when it came.
        self._heard: dict[str, Heard] = {}
        #: How often a claim came to be of another report than those that it was with before.
        self.moves = 0
        # By agent: when it last spoke, also of no nodes.
        self._heard_s: dict[str, float] = {}
        self._streams = Streams()
        #: What was announced last, while nobody claims anything else: None, it must be found anew.
        self._answer: Announced | None = None
        #: Nothing is old enough to be forgotten before this time.
        self._forget_s = -math.inf

    def configure(self, lost_after_s: float, forget_after_s: float) -> None:
        """Other times from now on."""
        self._lost_after_s, self._forget_after_s = lost_after_s, forget_after_s
        self._forget_s = -math.inf

    def receive(self, report: AgentReport, now_s: float) -> None:
        """Take a report that arrived at ``now_s``; what a newer one has told already stays."""
        agent = report.agent
        self._heard_s[agent] = now_s
        self._streams.heard(agent, report.stream, now_s, self._lost_after_s)
        heard = self._heard.get(agent)
        # The very same nodes as in the report before, as nearly always.
        if heard is not None and heard.report.block.entries is report.block.entries:
            if self._counts(report, heard, now_s):
                heard.report, heard.arrived_s = report, now_s
        else:
            self._claim(report, now_s)

    def _counts(self, report: AgentReport, heard: Heard, now_s: float) -> bool:
        """Is it newer? A machine that lost both clocks is believed again after its silence."""
        return report.follows(heard.report) or now_s - heard.arrived_s > self._lost_after_s

    def _claim(self, report: AgentReport, now_s: float) -> None:
        """Take the nodes of a report one by one."""
        agent, heard = report.agent, Heard(report, now_s)
        before, counts, whole = None, False, True
        for entry in report.block.entries:
            node = entry.node
            claims = self._claims.setdefault(node.name, {})
            held = claims.get((agent, node.host))
            if held is None:
                claims[agent, node.host] = Announcement(entry, heard)
                self._answer = None
                continue
            # Of a node that is named twice the first one counts.
            if held.heard is heard:
                continue
            if held.heard is not before:
                before = held.heard
                counts = self._counts(report, before, now_s)
            if not counts:
                whole = False
                continue
            if held.node is not node:
                self._answer = None
            held.entry, held.heard = entry, heard
        self.moves += 1
        self._heard.pop(agent, None)
        if whole:
            self._heard[agent] = heard

    def lost(self, announcement: Announcement, now_s: float) -> bool:
        return now_s - announcement.arrived_s > self._lost_after_s

    def announced(self, now_s: float) -> Announced:
        """What is known now. Of several claims the living one wins, then that of the instance
        that started last, then the older claim.
        """
        answer = self._decided(now_s)
        shared = self._streams.shared(now_s, self._lost_after_s)
        return replace(answer, conflicts=answer.conflicts | shared) if shared else answer

    def _decided(self, now_s: float) -> Announced:
        forgotten = self._forget(now_s) if now_s > self._forget_s else ()
        if self._answer is not None and not forgotten:
            return self._answer
        conflicts: set[Conflict | SharedName] = set()
        by_address: dict[str, list[Announcement]] = {}
        claimed = 0
        for name, claims in self._claims.items():
            claimed += len(claims)
            winner, losers = self._decide(claims.values(), now_s)
            by_address.setdefault(winner.node.address, []).append(winner)
            conflicts.update(
                Conflict(f"node {name}", winner.claimant, loser.claimant) for loser in losers
            )
        nodes: dict[str, Announcement] = {}
        for address, holders in by_address.items():
            winner, losers = self._decide(holders, now_s)
            nodes[winner.node.name] = winner
            conflicts.update(
                Conflict(
                    f"address {address}",
                    f"node {winner.node.name}",
                    f"node {loser.node.name}",
                )
                for loser in losers
            )
        # Of two claims the winner may be another one at any time.
        self._answer = Announced(nodes, frozenset()) if len(nodes) == claimed else None
        return Announced(nodes, frozenset(conflicts), forgotten)

    def _decide(
        self, claims: Iterable[Announcement], now_s: float
    ) -> tuple[Announcement, list[Announcement]]:
        """The winner, and those of the others that live."""
        first, *rest = claims
        if not rest:
            return first, rest
        # Stable: among equals the older claim stays first.
        ranked = sorted(
            (first, *rest), key=lambda claim: (self.lost(claim, now_s), -claim.start_epoch)
        )
        return ranked[0], [claim for claim in ranked[1:] if not self.lost(claim, now_s)]

    def _forget(self, now_s: float) -> tuple[Forgotten, ...]:
        """Drop what was silent too long, unless more than half of the agents are silent, be it the
        only one: then it is the way to them that is broken, or nobody is left to serve instead,
        and the nodes may well be there. One agent among others may have died with its machine,
        however many nodes it had.
        """
        oldest_s = min(self._heard_s.values(), default=now_s)
        for claims in self._claims.values():
            oldest_s = min(oldest_s, *(claim.arrived_s for claim in claims.values()))
        # What is heard of from now on is younger.
        self._forget_s = oldest_s + self._forget_after_s
        if now_s <= self._forget_s:
            return ()
        silent = sum(self._silent(agent, now_s) for agent in self._heard_s)
        if silent > len(self._heard_s) / 2:
            return ()
        dropped: dict[str, list[str]] = {}
        for name, claims in list(self._claims.items()):
            for claimant, claim in list(claims.items()):
                if now_s - claim.arrived_s > self._forget_after_s:
                    del claims[claimant]
                    self._heard.pop(claim.report.agent, None)
            if not claims:
                del self._claims[name]
                dropped.setdefault(claim.report.agent, []).append(name)
        forgotten = tuple(
            Forgotten(agent, self._silent(agent, now_s), tuple(names))
            for agent, names in dropped.items()
        )
        for agent, heard_s in list(self._heard_s.items()):
            if now_s - heard_s > self._forget_after_s:
                del self._heard_s[agent]
                self._heard.pop(agent, None)
                self._streams.forget(agent)
        return forgotten

    def _silent(self, agent: str, now_s: float) -> bool:
        return now_s - self._heard_s[agent] > self._lost_after_s
