"""What agents announced and what lists have, as one fleet: each name and each address once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from isocost.discovery.address import is_ip, split
from isocost.discovery.announce import Announcement, Conflict
from isocost.discovery.held import Kept
from isocost.model import Node
from isocost.weight.told import Discovered, Told

_GONE = (Told.WITHDRAWN, Told.LATE)


@dataclass(frozen=True, slots=True)
class Merged:
    """The fleet, sorted by name. ``claims`` are the agents', None for a node that nobody announced;
    ``told`` has nodes of which lists say something; ``hosts`` are the names to
    resolve, ``unresolved`` the nodes that lack an address, with what is to be resolved; ``probed``
    are the addresses of nodes that no agent announced, or a list calls gone; ``contested`` are
    announced nodes at whose address lists have only another one.
    """

    nodes: tuple[Node, ...]
    claims: tuple[Announcement | None, ...]
    told: Mapping[str, Told]
    conflicts: frozenset[Conflict]
    hosts: frozenset[str]
    unresolved: Mapping[str, str]
    probed: frozenset[str]
    contested: frozenset[str]

    def discovered(self, unreachable: Set[str]) -> Discovered | None:
        """What lists say and probes found, for each node; None: nothing of any."""
        refused = unreachable & self.probed
        if not self.told and not refused:
            return None
        return Discovered(
            np.array([self.told.get(node.name, 0) for node in self.nodes], dtype=np.int8),
            np.array([node.address in refused for node in self.nodes], dtype=np.bool_),
        )


def merge(
    announced: Mapping[str, Announcement],
    lists: Sequence[tuple[str, tuple[Kept, ...]]],
    resolve: Callable[[str], str | None],
    yielding: Set[str] = frozenset(),
) -> Merged:
    """``lists`` by the name of their source: of two that name a node the first one counts, and its
    agent before both, but for ``yielding``: contested nodes that give way to the lists.
    ``resolve`` gives an address in Envoy's form, None while it has none.
    """
    claimants = {claim.node.address: name for name, claim in announced.items()}
    if yielding:
        announced = {name: claim for name, claim in announced.items() if name not in yielding}
    nodes = {name: claim.node for name, claim in announced.items()}
    wanted: set[str] = set()
    confirmed: set[str] = set()
    holders = {node.address: name for name, node in nodes.items()}
    by = dict.fromkeys(nodes, "its agent")
    conflicts: set[Conflict] = set()
    hosts: set[str] = set()
    unresolved: dict[str, str] = {}
    for source, kept in lists:
        for item in kept:
            if not item.listed:
                continue
            node, address = item.node, resolve(item.node.address)
            if not is_ip(node.address):
                hosts.add(split(node.address)[0])
            claimant = claimants.get(address) if address is not None else None
            if claimant == node.name:
                confirmed.add(claimant)
            elif claimant is not None and node.name not in nodes:
                wanted.add(claimant)
            if node.name in nodes:
                if address not in (None, nodes[node.name].address):
                    winner = by[node.name]
                    conflicts.add(
                        Conflict(f"node {node.name}", winner, f"the {source}'s other address")
                    )
            elif address is None:
                unresolved.setdefault(node.name, node.address)
            elif address in holders:
                loser = f"the {source}'s {node.name}"
                conflicts.add(Conflict(f"address {address}", f"node {holders[address]}", loser))
            else:
                nodes[node.name] = node if address == node.address else _at(node, address)
                holders[address], by[node.name] = node.name, f"the {source}"
    names = sorted(nodes)
    told = _told(lists, nodes)
    doubted = {item.node.name for _, kept in lists for item in kept if item.doubted is not None}
    return Merged(
        tuple(nodes[name] for name in names),
        tuple(announced.get(name) for name in names),
        told,
        frozenset(conflicts),
        frozenset(hosts),
        {name: address for name, address in unresolved.items() if name not in nodes},
        frozenset(
            nodes[name].address
            for name in names
            if name not in announced or name in doubted or told.get(name) in _GONE
        ),
        frozenset(wanted - confirmed),
    )


def _at(node: Node, address: str) -> Node:
    return replace(node, address=address)


def _told(
    lists: Sequence[tuple[str, tuple[Kept, ...]]], nodes: Mapping[str, Node]
) -> dict[str, Told]:
    """What the lists say of the nodes. One that one list still has is not withdrawn."""
    listed = {item.node.name for _, kept in lists for item in kept if item.listed}
    told: dict[str, Told] = {}
    for _, kept in lists:
        for item in kept:
            name = item.node.name
            gone = item.told is Told.WITHDRAWN and name in listed
            if item.told is not Told.NOTHING and name in nodes and not gone:
                told[name] = max(item.told, told.get(name, Told.NOTHING))
    return told
