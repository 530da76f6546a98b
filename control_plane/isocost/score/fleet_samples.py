"""The latest samples of the fleet: the rows of many reports at once, in the order of the roster.

Where each node's rows are is found when the roster changes; a tick takes them from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocost.model import GpuSample, NodeSample, SignalState
from isocost.sample_rows import (
    ENGINE_SIGNALS,
    GPU_ROW,
    GPU_SIGNALS,
    HANDLES_DROPPED,
    NODE_ROW,
    NODE_SIGNALS,
    SILENT,
    UP,
)
from isocost.score.block import Block, Entry

Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]

#: The rows of isocost.sample_rows.
SIGNAL_TYPE = np.dtype([("state", "u1"), ("age_ms", "<u4"), ("value", "<f8")])
ENGINE_TYPE = np.dtype([("signals", SIGNAL_TYPE, len(ENGINE_SIGNALS))])
NODE_TYPE = np.dtype(
    [
        ("signals", SIGNAL_TYPE, len(ENGINE_SIGNALS) + len(NODE_SIGNALS)),
        ("flags", "u1"),
        ("clock_offset_ms", "<i8"),
    ]
)
GPU_TYPE = np.dtype(
    [("signals", SIGNAL_TYPE, len(GPU_SIGNALS)), ("lost", "u1"), ("health_age_ms", "<u4")]
)
#: Rows as they are, which are copied as fast as any bytes.
_NODE_BYTES = np.dtype(f"V{NODE_ROW.size}")
_LINKS = GPU_SIGNALS.index("nvlink_active_fraction")

#: Of a node that nobody has told of: every signal is absent.
_NO_ROW = bytes(NODE_ROW.size)


class GpuGroup(NamedTuple):
    """Nodes with as many GPUs: the nodes' places [m], and those of their GPUs' rows [m, gpus]."""

    nodes: Indices
    rows: Indices


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the rows of n nodes are, if those of ``len(first_gpu)`` blocks lie one behind the
    other; true while the blocks have the same entries.

    ``entries`` has None for a node without a sample; ``block`` [n] is then the number of blocks,
    ``row`` [n] that of all rows. ``owner`` of each GPU is its node's place, n if it is of no node.
    """

    entries: tuple[Entry | None, ...]
    block: Indices
    row: Indices
    gpus: tuple[GpuGroup, ...]
    owner: Indices
    first_gpu: tuple[int, ...]


def layout(blocks: Sequence[Block], found: Sequence[tuple[int, Entry] | None]) -> Layout:
    """``found`` is of each node the number of its block and its entry there."""
    nodes = [len(block.node_rows) // NODE_ROW.size for block in blocks]
    gpus = [len(block.gpu_rows) // GPU_ROW.size for block in blocks]
    first_row, first_gpu = ([0, *np.cumsum(counts).tolist()] for counts in (nodes, gpus))
    block = np.full(len(found), len(blocks), dtype=np.intp)
    row = np.full(len(found), first_row[-1], dtype=np.intp)
    owner = np.full(first_gpu[-1], len(found), dtype=np.intp)
    by_count: dict[int, list[tuple[int, int]]] = {}
    for place, at in enumerate(found):
        if at is not None:
            number, entry = at
            block[place], row[place] = number, first_row[number] + entry.row
            first, count = first_gpu[number] + entry.first_gpu, entry.end_gpu - entry.first_gpu
            owner[first : first + count] = place
            by_count.setdefault(count, []).append((place, first))
    return Layout(
        tuple(None if at is None else at[1] for at in found),
        block,
        row,
        tuple(_group(count, places) for count, places in by_count.items() if count),
        owner,
        tuple(first_gpu[:-1]),
    )


def _group(count: int, places: Sequence[tuple[int, int]]) -> GpuGroup:
    nodes, first = np.array(places, dtype=np.intp).T
    return GpuGroup(nodes, first[:, np.newaxis] + np.arange(count))


class FleetSamples:
    """The samples of n nodes at one tick: all of them as columns, and one by one as a NodeSample,
    or None for a node without one.
    """

    def __init__(self, layout: Layout, blocks: Sequence[Block]) -> None:
        self.layout = layout
        self._blocks = blocks
        rows = b"".join([block.node_rows for block in blocks] + [_NO_ROW])
        #: The nodes' rows, [n] of NODE_TYPE.
        self.node_rows: NDArray[np.void] = (
            np.frombuffer(rows, _NODE_BYTES).take(layout.row).view(NODE_TYPE)
        )
        #: The rows of all GPUs of the blocks, of GPU_TYPE; see ``layout`` for the nodes'.
        self.gpu_rows: NDArray[np.void] = np.frombuffer(
            b"".join([block.gpu_rows for block in blocks]), GPU_TYPE
        )

    def __len__(self) -> int:
        return len(self.layout.entries)

    def __getitem__(self, index: int) -> NodeSample | None:
        entry = self.layout.entries[index]
        return None if entry is None else self._block(index).sample(entry)

    def gpus(self, index: int) -> tuple[GpuSample, ...]:
        """The GPUs of one node."""
        entry = self.layout.entries[index]
        return () if entry is None else self._block(index).gpus(entry)

    def models(self, index: int) -> Sequence[tuple[str, bytes]]:
        """What a node's page tells of each model: its name there, and its engine's row."""
        entry = self.layout.entries[index]
        return () if entry is None else self._block(index).models.get(entry.row, ())

    def taken_s(self, index: int) -> float:
        """When the sample of a node that has one was taken, by its agent's monotonic clock."""
        return self._block(index).taken_s

    @cached_property
    def there(self) -> Flags:
        """Which nodes have a sample, [n]."""
        there: Flags = self.layout.block < len(self._blocks)
        return there

    @cached_property
    def down(self) -> Flags:
        """The engine refuses connections, or fails in other ways, [n]."""
        return self.there & ~self._flag(UP)

    @cached_property
    def silent(self) -> Flags:
        """Of those that are down: the page fails, but not by nobody being there, [n]."""
        return self.down & self._flag(SILENT)

    @cached_property
    def handles_dropped(self) -> Flags:
        """A process that lives has lost half of its CUDA handles, [n]."""
        return self._flag(HANDLES_DROPPED)

    @cached_property
    def odd(self) -> list[int]:
        """The places of the nodes on which the health table may have something: it has nothing on
        any other.
        """
        links, nodes = self.gpu_rows["signals"][:, _LINKS], np.zeros(len(self) + 1, dtype=np.bool_)
        known = (links["state"] == SignalState.MEASURED) | (links["state"] == SignalState.STALE)
        odd = (known & ~(links["value"] >= 1.0)) | (self.gpu_rows["lost"] != 0)
        for first, block in zip(self.layout.first_gpu, self._blocks, strict=True):
            for gpu in block.health.unwell:
                odd[first + gpu] = True
        nodes[self.layout.owner[odd]] = True
        places: list[int] = np.flatnonzero(nodes[:-1] | self.handles_dropped).tolist()
        return places

    def _flag(self, flag: int) -> Flags:
        flags: Flags = (self.node_rows["flags"] & flag) != 0
        return flags

    def _block(self, index: int) -> Block:
        return self._blocks[int(self.layout.block[index])]
