"""What discovery says of the nodes besides their telemetry: lists that name them, and probes."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from isocost.weight.evidence import Flags
from isocost.weight.life_table import (
    CHECK_CRITICAL,
    CHECK_LATE,
    MAINTENANCE,
    NO_FAULT,
    WITHDRAWN,
    Codes,
)
from isocost.weight.limits import Limits, without_room

#: A node that a list calls gone lives as long as its agent speaks: after three missed reports of
#: 200 ms it does not. Without such a word `lost_after_ms` decides.
STREAM_SILENT_S = 0.6


class Told(enum.IntEnum):
    """What the lists say of a node; of several lists the larger number counts."""

    NOTHING = 0
    WARNING = 1
    #: No list that named it names it any more.
    WITHDRAWN = 2
    #: Its agent's own heartbeat is late.
    LATE = 3
    CRITICAL = 4
    MAINTENANCE = 5


@dataclass(frozen=True, slots=True)
class Discovered:
    """Of n nodes: ``told`` [n] are numbers of Told; ``unreachable`` [n] are those that refuse
    connections again and again, of the ones that nobody else speaks for.
    """

    told: Codes
    unreachable: Flags


def faults(discovered: Discovered, speaks: Flags, stale: Flags) -> Codes:
    """Why each node is out by what the lists say, as an index of FAULTS.

    ``speaks``: its agent spoke within STREAM_SILENT_S. ``stale``: its agent is silent with most
    others, who may all have stopped and told the list so: then the node must refuse connections
    as well.
    """
    told = discovered.told
    gone = ~speaks & (~stale | discovered.unreachable)
    fault = np.full(told.shape, NO_FAULT, dtype=np.int8)
    fault[(told == Told.WITHDRAWN) & gone] = WITHDRAWN
    fault[(told == Told.LATE) & gone] = CHECK_LATE
    fault[told == Told.CRITICAL] = CHECK_CRITICAL
    fault[told == Told.MAINTENANCE] = MAINTENANCE
    return fault


def refusing(refuses: Flags, lost: Flags, limits: Limits, most: float) -> tuple[Flags, Flags]:
    """Of the nodes that refuse the control plane's probes: those that are out for that, and those
    that stay: beyond the limits, or all of them if there are more than ``most``. Then it is rather
    the way from here that is broken. ``lost`` nodes stay out.
    """
    count = np.count_nonzero(refuses)
    if not count or count > most:
        return np.zeros_like(refuses), refuses
    order = sorted(np.flatnonzero(refuses).tolist(), key=lambda index: (not lost[index], index))
    stay = without_room(limits, order, len(refuses))
    return refuses & ~stay, stay
