"""How discovery itself is: its sources, and the nodes that they have and the roster lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isocost.discovery.listing import Source
from isocost.weight.told import Told


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source at ``now_s``. ``held``: by node, what it says of it and is not believed;
    ``without_agent``: how many of its nodes no agent speaks for.
    """

    source: Source
    held: Mapping[str, Told]
    without_agent: int
    now_s: float

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def answered(self) -> bool:
        return self.source.listing is not None

    @property
    def nodes(self) -> int:
        """How many are on its last list."""
        return len(self.source.listing.nodes) if self.source.listing else 0

    @property
    def refused(self) -> tuple[str, ...]:
        return self.source.listing.refused if self.source.listing else ()

    @property
    def age_s(self) -> float:
        """Time since it was last known to be current, or since it is waited for."""
        return self.now_s - self.source.confirmed_s

    @property
    def error(self) -> str | None:
        return self.source.error


@dataclass(frozen=True, slots=True)
class DiscoveryState:
    """``unresolved``: by node that is not in the roster, its address and why that has no IP.
    ``stale_names``: by name whose last address is used, why there is no new one. ``unreachable``:
    nodes without an agent that refuse connections.
    """

    conflicts: tuple[str, ...]
    sources: tuple[SourceState, ...]
    unresolved: Mapping[str, tuple[str, str]]
    stale_names: Mapping[str, str]
    unreachable: tuple[str, ...]
