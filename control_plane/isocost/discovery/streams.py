"""Which agents' names speak on two streams at once: a copied configuration is otherwise unseen.

The time comes in as an argument: monotonic seconds of the control plane.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SharedName:
    """An agent's name that two living streams have: their reports take turns."""

    agent: str

    def __str__(self) -> str:
        return (
            f"agent {self.agent} reports on two streams at once: two agents have that name; of a "
            "node that both name the latest report counts"
        )


@dataclass(slots=True)
class _Stream:
    number: int
    since_s: float
    heard_s: float


class Streams:
    """An agent that connects anew has left its old stream, of which a last report may come late; a
    newer stream that lives this long beside an older one is another agent's.
    """

    def __init__(self) -> None:
        #: By agent.
        self._newest: dict[str, _Stream] = {}
        #: By agent: when an older stream than its newest one spoke last.
        self._older_s: dict[str, float] = {}

    def heard(self, agent: str, number: int, now_s: float, lost_after_s: float) -> None:
        """``number``: later streams have greater ones."""
        newest = self._newest.get(agent)
        if newest is not None and number == newest.number:
            newest.heard_s = now_s
        elif newest is None or number > newest.number or now_s - newest.heard_s > lost_after_s:
            self._newest[agent] = _Stream(number, now_s, now_s)
        elif now_s - newest.since_s > lost_after_s:
            self._older_s[agent] = now_s

    def forget(self, agent: str) -> None:
        self._newest.pop(agent, None)

    def shared(self, now_s: float, lost_after_s: float) -> Set[SharedName]:
        for agent, heard_s in list(self._older_s.items()):
            if now_s - heard_s > lost_after_s:
                del self._older_s[agent]
        return {SharedName(agent) for agent in self._older_s}
