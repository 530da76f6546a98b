"""The built-in registry: nodes that agents announce, the latest sample of each, and conflicts.

The time comes in as an argument: monotonic seconds of the control plane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from isocost.discovery.report import AgentReport
from isocost.model import NodeSample


@dataclass(frozen=True, slots=True)
class Announcement:
    """The latest sample of a node, who sent it, and when it came."""

    sample: NodeSample
    agent: str
    sequence: int
    arrived_s: float

    @property
    def claimant(self) -> str:
        return f"agent {self.agent} on {self.sample.node.host or 'an unnamed host'}"

    @property
    def start_epoch(self) -> int:
        """Unix seconds at which the instance started; 0 = its identity does not tell."""
        epoch = self.sample.node.instance_id.rpartition("@")[2]
        return int(epoch) if epoch.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two living claims on one thing; the loser gets no traffic."""

    what: str
    winner: str
    loser: str

    def __str__(self) -> str:
        return f"{self.what} is claimed by {self.winner} and by {self.loser}; the first one has it"


@dataclass(frozen=True, slots=True)
class Announced:
    """The announced nodes by name, each name and each address once."""

    nodes: Mapping[str, Announcement]
    conflicts: frozenset[Conflict]


class Announcements:
    """After ``lost_after_s`` of silence anyone may take a node over; after ``forget_after_s`` it
    is forgotten. A stream that ends removes nothing: only silence does.
    """

    def __init__(self, lost_after_s: float, forget_after_s: float) -> None:
        self._lost_after_s = lost_after_s
        self._forget_after_s = forget_after_s
        # By node name, then by agent and host: both in the order of their first claim.
        self._claims: dict[str, dict[tuple[str, str], Announcement]] = {}

    def receive(self, report: AgentReport, now_s: float) -> None:
        """Take a report that arrived at ``now_s``."""
        for sample in report.samples:
            claims = self._claims.setdefault(sample.node.name, {})
            claims[report.agent, sample.node.host] = Announcement(
                sample, report.agent, report.sequence, now_s
            )

    def lost(self, announcement: Announcement, now_s: float) -> bool:
        return now_s - announcement.arrived_s > self._lost_after_s

    def announced(self, now_s: float) -> Announced:
        """What is known now. Of several claims the living one wins, then that of the instance
        that started last, then the older claim.
        """
        self._forget(now_s)
        conflicts: set[Conflict] = set()
        by_address: dict[str, list[Announcement]] = {}
        for name, claims in self._claims.items():
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
        return Announced(nodes, frozenset(conflicts))

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

    def _forget(self, now_s: float) -> None:
        """Drop what was silent too long, unless more than half of the nodes are silent: then it is
        the way to the agents that is broken, and the nodes are still there.
        """
        newest = [max(claim.arrived_s for claim in held.values()) for held in self._claims.values()]
        silent = sum(now_s - arrived_s > self._lost_after_s for arrived_s in newest)
        if silent > len(newest) / 2 and silent > 1:
            return
        for name, claims in list(self._claims.items()):
            for claimant, claim in list(claims.items()):
                if now_s - claim.arrived_s > self._forget_after_s:
                    del claims[claimant]
            if not claims:
                del self._claims[name]
