"""The samples of the fleet as columns: all numbers at once, combined over the GPUs of each node.

A sample that came over the wire brings its numbers along as bytes, so that a tick need not look at
every signal of every GPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocost.model import (
    SAMPLE_FRESH_S,
    NodeSample,
    SignalState,
)
from isocost.sample_rows import (
    ENGINE_SIGNALS,
    GPU_ROW,
    GPU_SIGNALS,
    NODE_ROW,
    NODE_SIGNALS,
    gpu_row,
    node_row,
)
from isocost.score.columns import Column, Floats

#: The numbers of every tick. The last signal of each row, CUDA handles and a GPU's utilisation, is
#: looked at when something is odd.
NODE_NUMBERS = (*ENGINE_SIGNALS, *NODE_SIGNALS[:-1])
GPU_NUMBERS = GPU_SIGNALS[:-1]
#: Over the GPUs of a node the slowest way counts, and the mean of the links; memory is summed up.
_LARGEST = GPU_NUMBERS.index("pcie_bytes_per_s")
_MEAN = GPU_NUMBERS.index("nvlink_active_fraction")

#: More than any signal is: a petabyte, or the tokens of an engine that makes a million per second
#: for thirty years. Products of such numbers stay numbers, and one wrong page beside right ones
#: leaves these their digits where the median comes in.
_MOST = 1e15

_SIGNAL = np.dtype([("state", "u1"), ("age_ms", "<u4"), ("value", "<f8")])
#: The signals of a row; what comes behind them is not looked at here.
_NODE = np.dtype(
    {"names": ["signals"], "formats": [(_SIGNAL, len(NODE_NUMBERS))], "itemsize": NODE_ROW.size}
)
_GPU = np.dtype(
    {"names": ["signals"], "formats": [(_SIGNAL, len(GPU_NUMBERS))], "itemsize": GPU_ROW.size}
)

_fields = attrgetter(*(field.name for field in dataclasses.fields(NodeSample)))


class ReadSample(NodeSample):
    """A sample whose numbers are there as ``node_row`` and ``gpu_rows`` (one GPU's behind the
    other's), see isocost.sample_rows, so that whoever made it may read its signals later, when
    somebody asks: on most ticks nobody does. What cannot be true may be among them.

    ``well``: the health table has nothing on it.
    """

    __slots__ = ("gpu_rows", "node_row", "well")

    node_row: bytes
    gpu_rows: bytes
    well: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSample) and _fields(self) == _fields(other)

    def __hash__(self) -> int:
        return hash(_fields(self))


def node_columns(samples: Sequence[NodeSample | None], ages_s: Floats) -> Mapping[str, Column]:
    """The signals of n nodes by name, those of a GPU over all GPUs of the node.

    A node without a sample has every signal absent; a sample older than ``SAMPLE_FRESH_S`` makes
    every signal in it stale, and that much older. ``ages_s`` [n] is the time since each arrived.
    """
    rows = [sample if isinstance(sample, ReadSample) else _rows(sample) for sample in samples]
    own = _signals(b"".join([row.node_row for row in rows]), _NODE)
    of_gpus = _over_gpus([row.gpu_rows for row in rows])
    names = (*NODE_NUMBERS, *GPU_NUMBERS)
    values = np.concatenate((own[0], of_gpus[0]))
    states = np.concatenate((own[1], of_gpus[1]))
    ages = np.concatenate((own[2], of_gpus[2]))
    known = (states == SignalState.MEASURED) | (states == SignalState.STALE)
    old = known & (ages_s > SAMPLE_FRESH_S)
    states = np.where(old, SignalState.STALE, states).astype(np.int8)
    ages = ages + np.where(old, ages_s, 0.0) if old.any() else ages
    return {
        name: Column(values[place], states[place], ages[place]) for place, name in enumerate(names)
    }


def vram_total_bytes(samples: Sequence[NodeSample | None]) -> Floats:
    """Over all GPUs of each node, [n]; 0 = not known."""
    total = node_columns(samples, np.zeros(len(samples)))["vram_total_bytes"]
    return total.value


class _Rows(NamedTuple):
    node_row: bytes
    gpu_rows: bytes


def _rows(sample: NodeSample | None) -> _Rows:
    if sample is None:
        return _NO_ROWS
    return _Rows(node_row(sample), b"".join(map(gpu_row, sample.gpus)))


_NO_ROWS = _Rows(bytes(NODE_ROW.size), b"")

_Signals = tuple[Floats, NDArray[np.int8], Floats]


def _signals(rows: bytes, dtype: np.dtype[np.void]) -> _Signals:
    """Values, states and ages in seconds of m rows of ``dtype``, each [signals, m].

    No signal is ever negative or larger than ``_MOST``; one that is, or has a state of a later
    version of the protocol, is not known. What is not known has the value and the age 0.
    """
    signals = np.frombuffer(rows, dtype)["signals"].T
    state, value, age_ms = (
        np.ascontiguousarray(signals[name]) for name in ("state", "value", "age_ms")
    )
    possible = (value >= 0.0) & (value <= _MOST)
    known = ((state == SignalState.MEASURED) | (state == SignalState.STALE)) & possible
    kept = known | (state == SignalState.UNSUPPORTED)
    return (
        np.where(known, value, 0.0),
        np.where(kept, state, SignalState.ABSENT).astype(np.int8),
        np.where(known, age_ms / 1e3, 0.0),
    )


def _over_gpus(rows: Sequence[bytes]) -> _Signals:
    """The signals of n nodes, each one over all GPUs of its node, [signals, n]. Nodes with as many
    GPUs are looked at together.
    """
    count = np.array(list(map(len, rows)), dtype=np.intp) // GPU_ROW.size
    shape = (len(GPU_NUMBERS), len(rows))
    values, states, ages = np.zeros(shape), np.zeros(shape, dtype=np.int8), np.zeros(shape)
    for gpus in np.unique(count[count > 0]).tolist():
        places = np.flatnonzero(count == gpus)
        of_gpus = _signals(b"".join([rows[place] for place in places.tolist()]), _GPU)
        each = len(GPU_NUMBERS), len(places), gpus
        values[:, places], states[:, places], ages[:, places] = _combined(
            *(part.reshape(each) for part in of_gpus)
        )
    return values, states, ages


def _combined(value: Floats, state: NDArray[np.int8], age_s: Floats) -> _Signals:
    """One signal of each node, [signals, m], from those of its GPUs, [signals, m, gpus].

    Parts that are unsupported drop out; one absent part makes the whole absent (a sum that lacks
    a part is not a sum). The result is as old as its oldest part.
    """
    parts = np.count_nonzero(state != SignalState.UNSUPPORTED, axis=2)
    absent = (state == SignalState.ABSENT).any(axis=2)
    stale = (state == SignalState.STALE).any(axis=2)
    # Nothing is added by a part that drops out: its value is 0.
    combined = value.sum(axis=2)
    combined[_LARGEST] = value[_LARGEST].max(axis=1)
    combined[_MEAN] /= np.maximum(parts[_MEAN], 1)
    known = ~absent & (parts > 0)
    states = np.where(stale, SignalState.STALE, SignalState.MEASURED)
    states = np.where(known, states, np.where(absent, SignalState.ABSENT, SignalState.UNSUPPORTED))
    return (
        np.where(known, combined, 0.0),
        states.astype(np.int8),
        np.where(known, age_s.max(axis=2), 0.0),
    )
