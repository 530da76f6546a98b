"""What the guards found of the nodes at one tick: numbers that nobody should believe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from isocost.weight.standing import Reason


@dataclass(frozen=True)
class Guarded:
    """By a node's index: ``doubts`` are why it is a suspect for as long as that is true;
    ``idle_stuck`` are those that should get a few requests to show what is true, named once.
    """

    doubts: Mapping[int, Reason]
    idle_stuck: tuple[int, ...] = ()


NOTHING_GUARDED = Guarded(MappingProxyType({}))
