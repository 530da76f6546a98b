"""The samples of one report as they came: their numbers are rows of bytes until somebody asks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    HealthSignals,
    Node,
    NodeSample,
    Signal,
    SignalState,
)
from isocost.sample_rows import (
    ENGINE_ROW,
    ENGINE_SIGNALS,
    GPU_ROW,
    GPU_SIGNALS,
    HANDLES_DROPPED,
    NODE_ROW,
    NODE_SIGNALS,
    SILENT,
    UP,
)

#: To look a member of an enum up takes as long as to make a signal.
_MEASURED, _STALE, _UNSUPPORTED = (
    SignalState.MEASURED,
    SignalState.STALE,
    SignalState.UNSUPPORTED,
)


class Health(NamedTuple):
    """A GPU's health; ``well``: the health table has nothing on it, at no time."""

    signals: HealthSignals
    well: bool


class HealthOfGpus(NamedTuple):
    """Of all GPUs of a report, None: not read yet; ``unwell`` are the places of those that are not
    well.
    """

    told: tuple[Health | None, ...] = ()
    unwell: tuple[int, ...] = ()


class Entry(NamedTuple):
    """A node of a report: the places of its row, and of its GPUs among those of all nodes."""

    node: Node
    uuids: tuple[str, ...]
    row: int
    first_gpu: int
    end_gpu: int


class Block(NamedTuple):
    """The nodes of a report with their rows and their GPUs', one behind the other, see
    isocost.sample_rows. There may be rows of nodes that are refused, and numbers that cannot be
    true. Signals are many objects, which would all be let go of by the next tick: on most ticks
    nobody asks for them.

    ``entries`` and ``health`` are the same objects for as long as nothing of them changes.
    ``models`` are, by a node's row, what its page tells of each model: its name and the engine's
    row. ``taken_s`` is by the agent's monotonic clock.
    """

    entries: tuple[Entry, ...]
    taken_s: float
    node_rows: bytes
    gpu_rows: bytes
    health: HealthOfGpus
    models: Mapping[int, Sequence[tuple[str, bytes]]]

    def sample(self, entry: Entry) -> NodeSample:
        """One of the nodes."""
        row = NODE_ROW.unpack_from(self.node_rows, entry.row * NODE_ROW.size)
        *_, flags, offset_ms = row
        signals = _signals_of(row, len(ENGINE_SIGNALS) + len(NODE_SIGNALS))
        own = dict(zip(NODE_SIGNALS, signals[len(ENGINE_SIGNALS) :], strict=True))
        return NodeSample(
            entry.node,
            engine_up=flags & UP != 0,
            gpus=self.gpus(entry),
            engine=EngineSample(*signals[: len(ENGINE_SIGNALS)]),
            clock_offset_s=offset_ms / 1e3,
            cuda_handles_dropped=flags & HANDLES_DROPPED != 0,
            by_model=tuple((name, _engine(row)) for name, row in self.models.get(entry.row, ())),
            taken_s=self.taken_s,
            engine_silent=flags & SILENT != 0,
            **own,
        )

    def gpus(self, entry: Entry) -> tuple[GpuSample, ...]:
        """Those of one of the nodes."""
        own = self.gpu_rows[entry.first_gpu * GPU_ROW.size : entry.end_gpu * GPU_ROW.size]
        told = self.health.told[entry.first_gpu : entry.end_gpu]
        return tuple(
            _gpu(uuid, row, health)
            for uuid, row, health in zip(entry.uuids, GPU_ROW.iter_unpack(own), told, strict=True)
        )


def _gpu(uuid: str, row: Sequence[float], health: Health | None) -> GpuSample:
    *_, lost, health_age_ms = row
    signals = dict(zip(GPU_SIGNALS, _signals_of(row, len(GPU_SIGNALS)), strict=True))
    return GpuSample(
        uuid,
        **signals,
        lost=lost != 0,
        health=None if health is None else health.signals,
        health_age_s=health_age_ms / 1e3,
    )


def _engine(row: bytes) -> EngineSample:
    return EngineSample(*_signals_of(ENGINE_ROW.unpack(row), len(ENGINE_SIGNALS)))


def _signals_of(row: Sequence[float], count: int) -> list[Signal]:
    """The first so many of an unpacked row."""
    return [known_signal(*row[place : place + 3]) for place in range(0, 3 * count, 3)]


def known_signal(state: float, age_ms: float, value: float) -> Signal:
    """No signal here is ever negative or infinite; one that is, or has a state of a later version
    of the protocol, is not known.
    """
    if state == _UNSUPPORTED:
        return UNSUPPORTED
    if not 0.0 <= value < math.inf:
        return ABSENT
    if state == _MEASURED:
        return Signal(_MEASURED, value, age_ms / 1e3)
    if state == _STALE:
        return Signal(_STALE, value, age_ms / 1e3)
    return ABSENT
