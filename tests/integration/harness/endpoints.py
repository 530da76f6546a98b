"""Nodes one by one, as what Envoy's fallback gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from isocost.model import Node, NodeState
from isocost.push.resources.endpoints import EndpointEncoder


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    """A node with its state and its integer weight."""

    node: Node
    state: NodeState
    weight: int = 1


def encode(encoder: EndpointEncoder, endpoints: Iterable[NodeEndpoint]) -> tuple[str, bytes]:
    """The EDS resource's name and its bytes."""
    items = tuple(endpoints)
    return encoder.encode(
        tuple(item.node for item in items),
        [item.state for item in items],
        [item.weight for item in items],
    )
