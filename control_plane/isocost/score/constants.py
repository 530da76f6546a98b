"""What a roster alone decides, computed once per roster and not on each tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isocost.config import EntropySettings
from isocost.model import Node
from isocost.score.columns import Column, Floats
from isocost.score.entropy import node_capacity
from isocost.score.telemetry import kv_bytes_per_token


@dataclass(frozen=True)
class RosterConstants:
    """Of n nodes: KV bytes per token, and capacity relative to the reference card."""

    kv_bytes_per_token: Column
    capacity: Floats


def roster_constants(nodes: Sequence[Node], settings: EntropySettings) -> RosterConstants:
    return RosterConstants(kv_bytes_per_token(nodes), node_capacity(nodes, settings))
