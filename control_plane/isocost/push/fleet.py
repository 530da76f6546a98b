"""The roster and the table on the wire."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from google.protobuf import any_pb2

from isocost.model import Node, NodeState
from isocost.node_message import encode_node
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import ROSTER, TABLE
from isocost.score.columns import Floats
from isocost.v1 import roster_pb2, table_pb2

#: The one resource of each of our types: the whole fleet.
RESOURCE = "fleet"


def encode_roster(nodes: Sequence[Node]) -> tuple[int, bytes]:
    """A roster's version and its serialised message; equal nodes give an equal version."""
    roster = roster_pb2.Roster(nodes=[encode_node(node) for node in nodes])
    content = roster.SerializeToString(deterministic=True)
    version = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
    roster.version = version
    return version, roster.SerializeToString(deterministic=True)


def encode_table(
    version: int,
    roster_version: int,
    built_at_unix_ms: int,
    weight: Floats,
    entropy: Floats,
    states: Sequence[NodeState],
) -> bytes:
    """A serialised table of n nodes in roster order; weight and entropy travel as float32."""
    return table_pb2.Table(
        version=version,
        roster_version=roster_version,
        built_at_unix_ms=built_at_unix_ms,
        weight=weight.astype(np.float32).tolist(),
        entropy=entropy.astype(np.float32).tolist(),
        state=bytes(states),
    ).SerializeToString()


def roster_resources(version: int, content: bytes) -> TypeResources:
    """The roster as the one resource of its type."""
    return _fleet(ROSTER, f"{version:016x}", content)


def table_resources(version: int, content: bytes) -> TypeResources:
    """The table as the one resource of its type."""
    return _fleet(TABLE, str(version), content)


def _fleet(type_url: str, version: str, content: bytes) -> TypeResources:
    body = any_pb2.Any(type_url=type_url, value=content).SerializeToString()
    return TypeResources(type_url, version, {RESOURCE: body})
