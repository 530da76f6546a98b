"""Machines for the tests: recorded ones by file name, and others by their NVLinks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from isocost.telemetry.topology.machine import Gpu, Link, LinkKind, Topology, pairs

FILES = Path(__file__).parents[2] / "data" / "gpu-topology"


def text(file: str) -> str:
    """As it is on disk, line ends included."""
    return (FILES / file).read_bytes().decode()


def machine(count: int, nvlinks: Mapping[tuple[int, int], int], per_numa_node: int = 4) -> Topology:
    """GPUs with so many NVLinks between these pairs, and PCIe between all others."""
    links = {
        pair: Link(LinkKind.NVLINK, nvlinks[pair]) if pair in nvlinks else Link(LinkKind.SYS)
        for pair in pairs(range(count))
    }
    gpus = tuple(Gpu(index, numa_nodes=(index // per_numa_node,)) for index in range(count))
    return Topology(gpus, links)


def joined(*groups: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """12 NVLinks between every two of each group."""
    return {pair: 12 for group in groups for pair in pairs(group)}
