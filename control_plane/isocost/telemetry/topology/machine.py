"""How the GPUs of one machine are joined to each other, to CPUs and to NICs."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

#: More than any machine has (20 in the largest PCIe boxes). It bounds the search for groups, whose
#: worst case grows as 3^(n/3).
MAX_GPUS = 32


class LinkKind(enum.IntEnum):
    """A way between two devices, nearest first; the names are those of `nvidia-smi topo -m`."""

    NVLINK = 0
    #: At most one PCIe bridge.
    PIX = 1
    #: Several PCIe bridges, but not the host's.
    PXB = 2
    #: A PCIe host bridge, mostly the CPU.
    PHB = 3
    #: Two host bridges of one NUMA node.
    NODE = 4
    #: The link between NUMA nodes.
    SYS = 5
    #: The source does not tell; it may be far.
    UNKNOWN = 6

    def __str__(self) -> str:
        return "?" if self is LinkKind.UNKNOWN else self.name


@dataclass(frozen=True, slots=True)
class Link:
    """``nvlinks`` is the number of bonded NVLinks, 0 for every other kind."""

    kind: LinkKind
    nvlinks: int = 0

    def __str__(self) -> str:
        return f"NV{self.nvlinks}" if self.kind is LinkKind.NVLINK else str(self.kind)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. None: the source does not tell.

    ``numa_nodes`` and ``cpus`` are those near to it, ``own_numa_node`` is that of its own memory
    where the system sees that as a node; ``nics`` are all NICs with the way to each. With ``mig``
    the GPU works in slices, which have no NVLinks.
    """

    index: int
    numa_nodes: tuple[int, ...] | None = None
    cpus: tuple[range, ...] | None = None
    own_numa_node: int | None = None
    nics: tuple[tuple[str, LinkKind], ...] = ()
    mig: bool | None = None

    @property
    def nearest_nics(self) -> tuple[tuple[str, LinkKind], ...]:
        """The NICs that no other NIC is nearer than."""
        best = min((kind for _, kind in self.nics), default=None)
        return tuple((name, kind) for name, kind in self.nics if kind is best)


@dataclass(frozen=True, slots=True)
class Topology:
    """``links`` has every pair of GPU indices, the lower one first.

    Where ``nvlinks_known`` is false the source tells only of PCIe: a pair may have NVLinks too.
    """

    gpus: tuple[Gpu, ...]
    links: Mapping[tuple[int, int], Link]
    nvlinks_known: bool = True

    @property
    def indices(self) -> tuple[int, ...]:
        return tuple(gpu.index for gpu in self.gpus)

    def link(self, one: int, other: int) -> Link:
        """The way between two GPUs (KeyError: there is no such pair)."""
        return self.links[min(one, other), max(one, other)]

    def only(self, indices: Iterable[int]) -> Topology:
        """The same machine as if it had no other GPUs."""
        kept = set(indices)
        return replace(
            self,
            gpus=tuple(gpu for gpu in self.gpus if gpu.index in kept),
            links={pair: link for pair, link in self.links.items() if kept.issuperset(pair)},
        )


def pairs(indices: Iterable[int]) -> list[tuple[int, int]]:
    """Every pair, the lower index first."""
    return list(combinations(sorted(indices), 2))


def ranges_of(numbers: Iterable[int]) -> tuple[range, ...]:
    """Numbers as runs: 0, 1, 2, 5 are 0-2 and 5."""
    runs: list[range] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1].stop == number:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return tuple(runs)


def ranges_text(runs: Iterable[range]) -> str:
    """As nvidia-smi writes a list of cores: 0-31,64."""
    return ",".join(
        str(run.start) if len(run) == 1 else f"{run.start}-{run.stop - 1}" for run in runs
    )
