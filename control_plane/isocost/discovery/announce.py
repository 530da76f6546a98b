"""The built-in registry: nodes that agents announce, the latest sample of each, and conflicts.

The time comes in as an argument: monotonic seconds of the control plane.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from isocost.discovery.report import AgentReport
from isocost.discovery.streams import SharedName, Streams
from isocost.model import NodeSample

#: So many names are enough to know what happened.
_LISTED = 20


@dataclass(slots=True)
class Announcement:
    """The latest sample of a node, the report that it came with, and when it came: each report
    replaces them.
    """

    sample: NodeSample
    report: AgentReport
    arrived_s: float
    #: The node's clock less this machine's.
    clock_offset_s: float

    @property
    def claimant(self) -> str:
        return f"agent {self.report.agent} on {self.sample.node.host}"

    @property
    def start_epoch(self) -> int:
        """Unix seconds at which the instance started: that it is a number was checked."""
        return int(self.sample.node.instance_id.rpartition("@")[2])


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
        agent, all_claims, before, follows = report.agent, self._claims, None, False
        self._heard_s[agent] = now_s
        self._streams.heard(agent, report.stream, now_s, self._lost_after_s)
        agent_offset_s = report.clock_offset_s
        for sample in report.samples:
            node = sample.node
            claims = all_claims.get(node.name)
            held = None if claims is None else claims.get((agent, node.host))
            if held is None:
                all_claims.setdefault(node.name, {})[agent, node.host] = Announcement(
                    sample, report, now_s, agent_offset_s + sample.clock_offset_s
                )
                self._answer = None
                continue
            if held.report is not before:
                before = held.report
                follows = report.follows(before)
            # A machine that lost both clocks is believed again after its silence.
            if follows or self.lost(held, now_s):
                if held.sample.node is not node:
                    self._answer = None
                held.sample, held.report, held.arrived_s = sample, report, now_s
                held.clock_offset_s = agent_offset_s + sample.clock_offset_s

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
            by_address.setdefault(winner.sample.node.address, []).append(winner)
            conflicts.update(
                Conflict(f"node {name}", winner.claimant, loser.claimant) for loser in losers
            )
        nodes: dict[str, Announcement] = {}
        for address, holders in by_address.items():
            winner, losers = self._decide(holders, now_s)
            nodes[winner.sample.node.name] = winner
            conflicts.update(
                Conflict(
                    f"address {address}",
                    f"node {winner.sample.node.name}",
                    f"node {loser.sample.node.name}",
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
                self._streams.forget(agent)
        return forgotten

    def _silent(self, agent: str, now_s: float) -> bool:
        return now_s - self._heard_s[agent] > self._lost_after_s
