"""The roster and the table on the wire."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from google.protobuf import any_pb2
from numpy.typing import NDArray

from isocost.model import Node, NodeState
from isocost.node_message import encode_node
from isocost.observe.fleet import SeenVm
from isocost.push.encode import field
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import ROSTER, TABLE
from isocost.score.columns import Floats
from isocost.v1 import roster_pb2, table_pb2

#: The one resource of each of our types: the whole fleet.
RESOURCE = "fleet"


_LARGEST_COUNT = 2**32 - 1


@dataclass(frozen=True, slots=True)
class TableWork:
    """The columns for the predicted time of n nodes, each [n]; see table.proto."""

    capacity: Floats
    pending_tokens: NDArray[np.int64]
    open: NDArray[np.int64]
    kv_tokens: NDArray[np.int64]
    token_s: Floats
    request_s: Floats
    extra_s: Floats
    kv_capacity_tokens: Floats


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
    states: Sequence[NodeState] | NDArray[np.int8],
    work: TableWork | None = None,
    seen: Sequence[SeenVm] = (),
    placements: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> bytes:
    """A serialised table of n nodes in roster order; real numbers travel as float32. ``placements``
    are hashes by node.
    """
    table = table_pb2.Table(
        version=version,
        roster_version=roster_version,
        built_at_unix_ms=built_at_unix_ms,
        state=bytes(states),
        seen=[
            table_pb2.Seen(incarnation=vm.incarnation, sequence=vm.sequence, share=vm.share)
            for vm in seen
        ],
        placements=[
            table_pb2.Placement(node_id=node_id, blocks=blocks)
            for node_id, blocks in placements.items()
        ],
    )
    columns = {table.WEIGHT_FIELD_NUMBER: weight, table.ENTROPY_FIELD_NUMBER: entropy}
    if work is not None:
        table.pending_tokens.extend(_counts(work.pending_tokens))
        table.open.extend(_counts(work.open))
        table.kv_tokens.extend(_counts(work.kv_tokens))
        columns |= {
            table.CAPACITY_FIELD_NUMBER: work.capacity,
            table.TOKEN_S_FIELD_NUMBER: work.token_s,
            table.REQUEST_S_FIELD_NUMBER: work.request_s,
            table.EXTRA_S_FIELD_NUMBER: work.extra_s,
            table.KV_CAPACITY_TOKENS_FIELD_NUMBER: work.kv_capacity_tokens,
        }
    # The fields of a message may come in any order, and a packed field is a field of bytes: these
    # are not made into objects, number by number, first.
    packed = [packed_floats(number, values) for number, values in columns.items()]
    return b"".join((table.SerializeToString(), *packed))


def packed_floats(number: int, values: Floats) -> bytes:
    """A field ``repeated float`` of a message, as float32: what is finite stays finite."""
    most = float(np.finfo(np.float32).max)
    finite = np.where(np.isinf(values), values, np.clip(values, -most, most))
    return field(number, finite.astype("<f4").tobytes())


def _counts(values: NDArray[np.int64]) -> list[int]:
    result: list[int] = np.clip(values, 0, _LARGEST_COUNT).tolist()
    return result


def roster_resources(version: int, content: bytes) -> TypeResources:
    """The roster as the one resource of its type."""
    return fleet_resources(ROSTER, f"{version:016x}", content)


def table_resources(version: int, content: bytes) -> TypeResources:
    """The table as the one resource of its type."""
    return fleet_resources(TABLE, str(version), content)


def fleet_resources(type_url: str, version: str, content: bytes) -> TypeResources:
    """A serialised message of ours as the one resource of its type."""
    body = any_pb2.Any(type_url=type_url, value=content).SerializeToString()
    return TypeResources(type_url, version, {RESOURCE: body})
