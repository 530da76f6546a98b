"""A Topology of what NVML and the kernel tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isocost.telemetry.topology.facts import GpuFacts, NvLinkEnd
from isocost.telemetry.topology.machine import Gpu, Link, LinkKind, Topology, pairs
from isocost.telemetry.topology.sysfs import Sysfs, kernel_bus_id, way

#: The other end of an NVLink: a GPU's place in NVML's list, a switch, or what is neither, such as
#: a GPU that this container does not see.
_SWITCH = -1
_ELSEWHERE = -2


def assemble(facts: Sequence[GpuFacts], sysfs: Sysfs) -> Topology:
    """``nvlinks_known`` is false if a GPU's NVLinks, or the other end of one, are not told."""
    by_bus_id = {
        bus_id: index for index, gpu in enumerate(facts) if (bus_id := kernel_bus_id(gpu.bus_id))
    }
    ends = [_ends(gpu, by_bus_id, sysfs) for gpu in facts]
    told = [end for end in ends if end is not None]
    known = len(told) == len(facts)
    links = {}
    for one, other in pairs(range(len(facts))):
        nvlinks = _nvlinks(one, told[one], other, told[other]) if known else 0
        kind = facts[one].ways.get(other, LinkKind.UNKNOWN)
        links[one, other] = Link(LinkKind.NVLINK, nvlinks) if nvlinks else Link(kind)
    return Topology(
        tuple(_gpu(index, gpu, sysfs) for index, gpu in enumerate(facts)),
        links,
        nvlinks_known=known,
    )


def _ends(gpu: GpuFacts, by_bus_id: Mapping[str, int], sysfs: Sysfs) -> list[int] | None:
    if gpu.mig:
        # No slice reaches another GPU over NVLink, whatever state the links have.
        return []
    if gpu.nvlinks is None or (gpu.nvlinks and not kernel_bus_id(gpu.bus_id)):
        # Without its bus id no other GPU's links can be told to lead to it.
        return None
    ends = [_end(link, by_bus_id, sysfs) for link in gpu.nvlinks]
    told = [end for end in ends if end is not None]
    return told if len(told) == len(ends) else None


def _end(link: NvLinkEnd, by_bus_id: Mapping[str, int], sysfs: Sysfs) -> int | None:
    if (index := by_bus_id.get(kernel_bus_id(link.bus_id))) is not None:
        return index
    if link.is_switch is None and not link.bus_id:
        return None
    if link.is_switch is False:
        return _ELSEWHERE if link.bus_id else None
    # Old drivers do not tell what is there, and in a virtual machine the kernel may not see it;
    # what is no GPU of this machine is a switch then.
    is_gpu = link.is_switch is None and sysfs.is_switch(link.bus_id) is False
    return _ELSEWHERE if is_gpu else _SWITCH


def _nvlinks(one: int, of_one: list[int], other: int, of_other: list[int]) -> int:
    """Direct ones; or those to switches, which join every two GPUs that have no other links."""
    direct = min(of_one.count(other), of_other.count(one))
    return direct or min(_switched(of_one), _switched(of_other))


def _switched(ends: list[int]) -> int:
    return len(ends) if set(ends) == {_SWITCH} else 0


def _gpu(index: int, gpu: GpuFacts, sysfs: Sysfs) -> Gpu:
    place = sysfs.place(gpu.bus_id)
    return Gpu(
        index,
        numa_nodes=None if place is None or place.numa_node is None else (place.numa_node,),
        cpus=sysfs.cpus(gpu.bus_id),
        own_numa_node=gpu.own_numa_node,
        nics=tuple((name, way(place, nic)) for name, nic in sysfs.nics()),
        mig=gpu.mig,
    )
