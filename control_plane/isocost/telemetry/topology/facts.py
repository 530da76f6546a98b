"""What NVML tells of how GPUs are joined, as it says it: read in one process, used in another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isocost.telemetry.topology.machine import LinkKind


@dataclass(frozen=True, slots=True)
class NvLinkEnd:
    """The other end of an NVLink that is up. ``bus_id`` "" and ``is_switch`` None: not told."""

    bus_id: str
    is_switch: bool | None


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU, by its place in NVML's list. None: NVML does not tell.

    ``nvlinks`` are those that are up. ``own_numa_node`` is that of its own memory, where the system
    sees that as a node. ``ways`` are those over PCIe to the GPUs behind it in the list.
    """

    bus_id: str
    mig: bool | None
    nvlinks: tuple[NvLinkEnd, ...] | None
    own_numa_node: int | None
    ways: Mapping[int, LinkKind]


@dataclass(frozen=True, slots=True)
class NvmlAnswer:
    """``unavailable``: why NVML could not be opened; ``failed``: why it was of no use then."""

    gpus: tuple[GpuFacts, ...] = ()
    unavailable: str = ""
    failed: str = ""
