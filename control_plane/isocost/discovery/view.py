"""What a tick is given of the fleet: who is there, what is known of each, and since when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from isocost.model import Node, NodeSample
from isocost.score.columns import Floats
from isocost.weight.told import Discovered


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
    object while these are the same nodes. ``discovered`` is what lists and probes say of them,
    None if that is nothing.
    """

    nodes: tuple[Node, ...]
    samples: tuple[NodeSample | None, ...]
    ages_s: Floats
    clock_offsets_s: Floats
    discovered: Discovered | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[NodeView]:
        """One by one."""
        columns = self.nodes, self.samples, self.ages_s.tolist(), self.clock_offsets_s.tolist()
        return map(NodeView, *columns)
