"""The samples of the fleet as columns: all numbers at once, combined over the GPUs of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isocost.model import SAMPLE_FRESH_S, SignalState
from isocost.sample_rows import ENGINE_ROW, ENGINE_SIGNALS, GPU_SIGNALS, NODE_SIGNALS
from isocost.score.columns import Column, Floats
from isocost.score.fleet_samples import ENGINE_TYPE, FleetSamples

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

_NO_ENGINE = bytes(ENGINE_ROW.size)


class _Signals(NamedTuple):
    """Values, states and ages in seconds, each [signals, m]. What is not known has the value and
    the age 0.
    """

    value: Floats
    state: NDArray[np.int8]
    age_s: Floats


def node_columns(samples: FleetSamples, ages_s: Floats) -> Mapping[str, Column]:
    """The signals of n nodes by name, those of a GPU over all GPUs of the node.

    A node without a sample has every signal absent; a sample older than ``SAMPLE_FRESH_S`` makes
    every signal in it stale, and that much older. ``ages_s`` [n] is the time since each arrived.
    """
    own = _signals(samples.node_rows, len(NODE_NUMBERS))
    of_gpus = _over_gpus(samples)
    both = _Signals(
        np.concatenate((own.value, of_gpus.value)),
        np.concatenate((own.state, of_gpus.state)),
        np.concatenate((own.age_s, of_gpus.age_s)),
    )
    return _columns((*NODE_NUMBERS, *GPU_NUMBERS), both, ages_s)


def engine_columns(rows: Sequence[bytes | None], ages_s: Floats) -> Mapping[str, Column]:
    """The same of n engines, by their rows; without one every signal is absent."""
    joined = b"".join([row or _NO_ENGINE for row in rows])
    signals = _signals(np.frombuffer(joined, ENGINE_TYPE), len(ENGINE_SIGNALS))
    return _columns(ENGINE_SIGNALS, signals, ages_s)


def vram_total_bytes(samples: FleetSamples) -> Floats:
    """Over all GPUs of each node, [n]; 0 = not known."""
    total = node_columns(samples, np.zeros(len(samples)))["vram_total_bytes"]
    return total.value


def _columns(names: Sequence[str], signals: _Signals, ages_s: Floats) -> Mapping[str, Column]:
    value, state, age_s = signals
    known = (state == SignalState.MEASURED) | (state == SignalState.STALE)
    old = known & (ages_s > SAMPLE_FRESH_S)
    if old.any():
        state = np.where(old, SignalState.STALE, state).astype(np.int8)
        age_s = age_s + np.where(old, ages_s, 0.0)
    return {
        name: Column(value[place], state[place], age_s[place]) for place, name in enumerate(names)
    }


def _signals(rows: NDArray[np.void], count: int) -> _Signals:
    """The first so many signals of m rows. None is ever negative or larger than ``_MOST``; one that
    is, or has a state of a later version of the protocol, is not known.
    """
    signals = rows["signals"][:, :count].T
    state, value, age_ms = (
        np.ascontiguousarray(signals[name]) for name in ("state", "value", "age_ms")
    )
    possible = (value >= 0.0) & (value <= _MOST)
    known = ((state == SignalState.MEASURED) | (state == SignalState.STALE)) & possible
    kept = known | (state == SignalState.UNSUPPORTED)
    return _Signals(
        np.where(known, value, 0.0),
        np.where(kept, state, SignalState.ABSENT).astype(np.int8),
        np.where(known, age_ms / 1e3, 0.0),
    )


def _over_gpus(samples: FleetSamples) -> _Signals:
    """The signals of n nodes, each one over all GPUs of its node. Nodes with as many GPUs are
    looked at together.
    """
    value, state, age_s = _signals(samples.gpu_rows, len(GPU_NUMBERS))
    shape = (len(GPU_NUMBERS), len(samples))
    whole = _Signals(np.zeros(shape), np.zeros(shape, dtype=np.int8), np.zeros(shape))
    for nodes, rows in samples.layout.gpus:
        combined = _combined(value[:, rows], state[:, rows], age_s[:, rows])
        whole.value[:, nodes], whole.state[:, nodes], whole.age_s[:, nodes] = combined
    return whole


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
    return _Signals(
        np.where(known, combined, 0.0),
        states.astype(np.int8),
        np.where(known, age_s.max(axis=2), 0.0),
    )
