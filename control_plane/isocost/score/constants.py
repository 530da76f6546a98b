"""What a roster alone decides, computed once per roster and not on each tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.config import EntropySettings
from isocost.model import Node
from isocost.score.columns import Column, Floats
from isocost.score.entropy import node_capacity
from isocost.score.telemetry import kv_bytes_per_token


@dataclass(frozen=True)
class RosterConstants:
    """Of n nodes: KV bytes per token, capacity relative to the reference card, and the number of
    the pool that each is in: nodes of a pool should be equally fast.
    """

    kv_bytes_per_token: Column
    capacity: Floats
    pool: NDArray[np.intp]


def roster_constants(nodes: Sequence[Node], settings: EntropySettings) -> RosterConstants:
    return RosterConstants(
        kv_bytes_per_token(nodes), node_capacity(nodes, settings), pool_numbers(nodes)
    )


def pool_numbers(nodes: Sequence[Node]) -> NDArray[np.intp]:
    """Nodes with the same cards and the same models are in one pool, [n]."""
    numbers: dict[object, int] = {}
    return np.array(
        [
            numbers.setdefault(
                (node.gpu_kind, node.gpu_count, tuple(model.name for model in node.models)),
                len(numbers),
            )
            for node in nodes
        ],
        dtype=np.intp,
    )
