"""The rows of roster and table: one for each model of each node.

What a request costs, and what waits before it, is another thing for each model that a node serves:
its engines have queues of their own, and a token of a large model takes many times as long. With
one row for both, the small model's requests would avoid a node whose queue is the large one's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isocost.model import Node

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class ModelRows:
    """m rows of n nodes, in the nodes' order. A node with one model, or none, is its own row; each
    row of another is the node with one of its models and an ``instance_id`` of its own.
    """

    nodes: tuple[Node, ...]
    ids: tuple[int, ...]
    #: [m]: the place of each row's node.
    node_of: Indices
    #: [n]: the place of each node's first row.
    first: Indices
    #: [m]: rows that should be equally fast have the same number.
    pool: Indices
    #: Where a node has several: by a row's id the node's.
    parents: Mapping[int, int]

    @property
    def whole(self) -> NDArray[np.bool_]:
        """Which rows are all of their nodes, [m]."""
        return np.array([row_id not in self.parents for row_id in self.ids], dtype=np.bool_)

    @property
    def differ(self) -> bool:
        """Is any node more than one row?"""
        return bool(self.parents)


def model_rows(nodes: Sequence[Node]) -> ModelRows:
    rows: list[Node] = []
    node_of: list[int] = []
    first: list[int] = []
    kinds: list[object] = []
    parents: dict[int, int] = {}
    for place, node in enumerate(nodes):
        own = _rows_of(node)
        first.append(len(rows))
        rows += own
        node_of += [place] * len(own)
        names = tuple(model.name for model in node.models)
        # What else the cards hold slows a model's requests down.
        kinds += [
            (node.gpu_kind, node.gpu_count, names, tuple(model.name for model in row.models))
            for row in own
        ]
        if len(own) > 1:
            parents |= {row.id: node.id for row in own}
    numbers: dict[object, int] = {}
    return ModelRows(
        tuple(rows),
        tuple(row.id for row in rows),
        np.array(node_of, dtype=np.intp),
        np.array(first, dtype=np.intp),
        np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], dtype=np.intp),
        parents,
    )


def _rows_of(node: Node) -> list[Node]:
    if len(node.models) < 2:
        return [node]
    return [
        replace(node, instance_id=f"{node.instance_id}/{model.name}", models=(model,))
        for model in node.models
    ]
