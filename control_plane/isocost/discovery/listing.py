"""What a source of nodes has said: Consul, or a file. Holding on to it is not its matter."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from isocost.model import Node


class Check(enum.Enum):
    """What the source thinks of a node. A file only lists: PASSING."""

    PASSING = "passing"
    WARNING = "warning"
    #: The agent's own heartbeat is late: its stream to the control plane tells more.
    AGENT_LATE = "agent late"
    #: Any other check fails.
    CRITICAL = "critical"
    #: Maintenance mode of the node or of its machine: a drain.
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True)
class Listed:
    """One node of a list. ``node.address`` is HOST:PORT: a name is not resolved here."""

    node: Node
    check: Check = Check.PASSING


@dataclass(frozen=True, slots=True)
class Listing:
    """One whole, good answer of a source.

    ``refused`` says for each entry that cannot be used what is wrong with it. Equal answers are
    equal: nothing of one that changes by itself (an index, a check's output) is in it.
    """

    nodes: tuple[Listed, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """A source now. ``listing`` is its last good answer, None before the first, and the same object
    while it is equal; ``confirmed_s`` (monotonic) is when it was last known to be current;
    ``error`` is why there is no newer one, None while it answers. ``resets``: how often it went
    back in its own history, as a Consul does that was started without its data.
    """

    name: str
    listing: Listing | None
    confirmed_s: float
    error: str | None = None
    resets: int = 0


class Watch(Protocol):
    """Follows a source."""

    @property
    def source(self) -> Source: ...

    async def run(self) -> None:
        """Follow it until cancelled; what goes wrong there is its ``error``."""
