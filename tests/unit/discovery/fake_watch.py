"""A source of nodes that says what a test wants."""

from __future__ import annotations

from isocost.discovery.listing import Check, Listed, Listing, Source
from isocost.model import Node


class FakeWatch:
    """As a watch that runs elsewhere: ``source`` is what it knows now."""

    def __init__(self, name: str = "consul") -> None:
        self.source = Source(name, None, 0.0, "it has not answered yet")

    def says(self, now_s: float, *nodes: Node, **checks: Check) -> None:
        """A new whole answer; of a node without a check, that it is passing."""
        listed = tuple(Listed(node, checks.get(node.name, Check.PASSING)) for node in nodes)
        self.source = Source(self.source.name, Listing(listed), now_s)

    def confirms(self, now_s: float) -> None:
        """It answers, and nothing changed."""
        self.source = Source(self.source.name, self.source.listing, now_s)

    def fails(self, error: str) -> None:
        """It does not answer; what it said last stays."""
        source = self.source
        self.source = Source(source.name, source.listing, source.confirmed_s, error)

    async def run(self) -> None:
        raise NotImplementedError
