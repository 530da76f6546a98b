"""Which GPUs may work as one inference unit: those with NVLinks between every two of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from isocost.telemetry.topology.machine import Link, LinkKind, Topology, pairs

Indices = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """GPUs of which every two have NVLinks; a GPU without NVLinks is alone.

    ``nvlinks`` is the least of its pairs, 0 for a GPU alone.
    """

    gpus: Indices
    nvlinks: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """Inference units of ``degree`` GPUs each, and the GPUs that are left over."""

    degree: int
    units: tuple[Indices, ...]
    unused: Indices


def components(topology: Topology, min_nvlinks: int = 1) -> tuple[Indices, ...]:
    """GPUs that reach each other over NVLinks, if need be through others."""
    peers = _peers(topology, min_nvlinks)
    left = set(topology.indices)
    found = []
    while left:
        reached, front = set[int](), {min(left)}
        while front:
            reached |= front
            front = set[int]().union(*(peers[index] for index in front)) - reached
        left -= reached
        found.append(tuple(sorted(reached)))
    return tuple(found)


def nvlink_groups(topology: Topology, min_nvlinks: int = 1) -> tuple[Group, ...]:
    """Every GPU in one group, in the order of their first GPUs.

    A component that is not fully connected falls apart: the largest group first, of equal ones that
    with the most NVLinks, of equal ones that with the lowest indices.
    """
    peers = _peers(topology, min_nvlinks)
    groups = []
    for component in components(topology, min_nvlinks):
        left = set(component)
        while left:
            within = {index: peers[index] & left for index in left}
            best = max(_cliques(within), key=lambda gpus: _rank(topology, gpus))
            groups.append(best)
            left -= set(best)
    return tuple(Group(gpus, _least(topology, gpus)) for gpus in sorted(groups))


def propose(topology: Topology, degree: int, min_nvlinks: int = 1) -> Proposal:
    """As many units as the groups hold, none across two groups, and in a group few across two NUMA
    nodes. No unit: the degree is larger than every group.
    """
    numa = {gpu.index: gpu.numa_nodes or () for gpu in topology.gpus}
    units: list[Indices] = []
    for group in nvlink_groups(topology, min_nvlinks):
        rest: list[int] = []
        for node in sorted({numa[index] for index in group.gpus}):
            near = [index for index in group.gpus if numa[index] == node]
            whole = len(near) // degree * degree
            units += _chunks(near[:whole], degree)
            rest += near[whole:]
        units += _chunks(rest[: len(rest) // degree * degree], degree)
    used = {index for unit in units for index in unit}
    unused = tuple(index for index in topology.indices if index not in used)
    return Proposal(degree, tuple(sorted(units)), unused)


def instead_of(topology: Topology, degree: int, min_nvlinks: int = 1) -> Proposal:
    """What fits where ``degree`` does not: the largest power of two below it that has a unit.

    Powers of two, because a tensor-parallel degree must divide a model's attention heads.
    """
    fitting = 1 << max(degree - 1, 1).bit_length() - 1
    while not (proposal := propose(topology, fitting, min_nvlinks)).units and fitting > 1:
        fitting //= 2
    return proposal


def not_linked(topology: Topology, min_nvlinks: int = 1) -> tuple[tuple[int, int], ...]:
    """The pairs with fewer NVLinks than that."""
    return tuple(
        pair
        for pair in pairs(topology.indices)
        if not _is_linked(topology.link(*pair), min_nvlinks)
    )


def weak_pairs(topology: Topology, min_nvlinks: int) -> tuple[tuple[int, int], ...]:
    """The pairs that have NVLinks, but fewer than that: one may be down."""
    return tuple(
        pair for pair in not_linked(topology, min_nvlinks) if topology.link(*pair).nvlinks > 0
    )


def farthest(topology: Topology, one: Indices, other: Indices) -> Link:
    """The worst way from one set of GPUs to another."""
    links = (topology.link(left, right) for left in one for right in other)
    return max(links, key=lambda link: (link.kind, -link.nvlinks))


def _is_linked(link: Link, min_nvlinks: int) -> bool:
    return link.kind is LinkKind.NVLINK and link.nvlinks >= min_nvlinks


def _peers(topology: Topology, min_nvlinks: int) -> dict[int, set[int]]:
    peers: dict[int, set[int]] = {index: set() for index in topology.indices}
    for (one, other), link in topology.links.items():
        if _is_linked(link, min_nvlinks):
            peers[one].add(other)
            peers[other].add(one)
    return peers


def _cliques(peers: dict[int, set[int]]) -> Iterable[Indices]:
    """Every set of GPUs that are all peers and that no other GPU could join (Bron and Kerbosch,
    1973, with Tomita's pivot).
    """
    stack: list[tuple[set[int], set[int], set[int]]] = [(set(), set(peers), set())]
    while stack:
        chosen, open_, done = stack.pop()
        if not open_ and not done:
            yield tuple(sorted(chosen))
            continue
        pivot = max(sorted(open_ | done), key=lambda index: len(peers[index] & open_))
        for index in sorted(open_ - peers[pivot]):
            stack.append((chosen | {index}, open_ & peers[index], done & peers[index]))
            open_ = open_ - {index}
            done = done | {index}


def _rank(topology: Topology, gpus: Indices) -> tuple[int, int, list[int]]:
    total = sum(topology.link(*pair).nvlinks for pair in pairs(gpus))
    return len(gpus), total, [-index for index in gpus]


def _least(topology: Topology, gpus: Indices) -> int:
    return min((topology.link(*pair).nvlinks for pair in pairs(gpus)), default=0)


def _chunks(gpus: list[int], size: int) -> list[Indices]:
    return [tuple(sorted(gpus[start : start + size])) for start in range(0, len(gpus), size)]
