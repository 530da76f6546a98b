"""Which prompts' beginnings were answered where since the last table, over all VMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from isocost.observe.batch import Placement

#: Hashes that one table carries: 32 KiB for each Envoy five times a second at most. Of more the
#: newest, which the next requests are the likeliest to ask for.
MOST_BLOCKS = 4096


class Placements:
    """The newest node of each hash, until it is taken."""

    def __init__(self) -> None:
        self._node_of: dict[int, int] = {}

    def add(self, placements: Sequence[Placement]) -> None:
        """Take what a batch brought, the newest last."""
        node_of = self._node_of
        for placement in placements:
            for block in placement.blocks[-MOST_BLOCKS:]:
                node_of.pop(block, None)
                node_of[block] = placement.node_id
        for block in list(islice(node_of, max(len(node_of) - MOST_BLOCKS, 0))):
            del node_of[block]

    def take(self) -> Mapping[int, Sequence[int]]:
        """The hashes by node, and begin anew."""
        blocks: dict[int, list[int]] = {}
        for block, node_id in self._node_of.items():
            blocks.setdefault(node_id, []).append(block)
        self._node_of = {}
        return blocks
