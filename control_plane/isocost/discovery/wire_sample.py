"""A sample as it came over the wire: its numbers are kept as bytes until somebody asks."""

# NodeSample is frozen, and so is what this module makes of it once it is made.
# mypy: disable-error-code="misc"

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from isocost.model import (
    ABSENT,
    UNSUPPORTED,
    EngineSample,
    GpuSample,
    HealthSignals,
    Node,
    Signal,
    SignalState,
)
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
from isocost.score.rows import ReadSample

OWN_SIGNALS = len(ENGINE_SIGNALS) + len(NODE_SIGNALS)

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


class Entry(NamedTuple):
    """A node of a stream's agent, or why it is refused, and the places of its GPUs."""

    node: Node | str
    uuids: tuple[str, ...]
    first_gpu: int
    end_gpu: int


class _Own(NamedTuple):
    """What a node's row says; the last three in the order of NODE_SIGNALS."""

    engine: EngineSample
    net_bytes_per_s: Signal
    kv_cache_age_s: Signal
    cuda_handles: Signal


class WireSample(ReadSample):
    """Keeps its numbers as the bytes in which they came: signals are many objects, which would all
    be let go of by the next tick.
    """

    __slots__ = ("_entry", "_health", "_read_gpus", "_read_own")

    _entry: Entry
    #: Of all GPUs of the report.
    _health: Sequence[Health | None]
    _read_gpus: tuple[GpuSample, ...] | None
    _read_own: _Own | None

    # Written once as well, but not past the guard of a frozen dataclass, which takes five times as
    # long. Python leaves its own way only where both are replaced.
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__

    def __init__(
        self,
        entry: Entry,
        node: Node,
        taken_s: float,
        flags: int,
        clock_offset_ms: int,
        node_row: bytes,
        gpu_rows: bytes,
        health: Sequence[Health | None],
        well: bool,
    ) -> None:
        self.node = node
        self.engine_up = flags & UP != 0
        self.engine_silent = flags & SILENT != 0
        self.cuda_handles_dropped = flags & HANDLES_DROPPED != 0
        self.clock_offset_s = clock_offset_ms / 1e3
        self.by_model = ()
        self.taken_s = taken_s
        self.node_row = node_row
        self.gpu_rows = gpu_rows
        self.well = well
        self._entry = entry
        self._health = health
        self._read_gpus = self._read_own = None

    def add_models(self, by_model: Sequence[tuple[str, EngineSample]]) -> None:
        """What the page tells of the node's models, before anybody else has the sample."""
        self.by_model = tuple(by_model)

    # Properties, not __getattr__: with that every other attribute would be read the slow way, too.

    @property
    def gpus(self) -> tuple[GpuSample, ...]:
        if self._read_gpus is None:
            self._read_gpus = self._gpus()
        return self._read_gpus

    @property
    def engine(self) -> EngineSample:
        return self._own().engine

    @property
    def net_bytes_per_s(self) -> Signal:
        return self._own().net_bytes_per_s

    @property
    def kv_cache_age_s(self) -> Signal:
        return self._own().kv_cache_age_s

    @property
    def cuda_handles(self) -> Signal:
        return self._own().cuda_handles

    def _own(self) -> _Own:
        if self._read_own is None:
            signals = signals_of(NODE_ROW.unpack(self.node_row), OWN_SIGNALS)
            engine = EngineSample(*signals[: len(ENGINE_SIGNALS)])
            self._read_own = _Own(engine, *signals[len(ENGINE_SIGNALS) :])
        return self._read_own

    def _gpus(self) -> tuple[GpuSample, ...]:
        entry = self._entry
        gpus = []
        for uuid, health, row in zip(
            entry.uuids,
            self._health[entry.first_gpu : entry.end_gpu],
            GPU_ROW.iter_unpack(self.gpu_rows),
            strict=True,
        ):
            *_, lost, health_age_ms = row
            signals = dict(zip(GPU_SIGNALS, signals_of(row, len(GPU_SIGNALS)), strict=True))
            gpus.append(
                GpuSample(
                    uuid,
                    **signals,
                    lost=lost != 0,
                    health=None if health is None else health.signals,
                    health_age_s=health_age_ms / 1e3,
                )
            )
        return tuple(gpus)


def signals_of(row: Sequence[float], count: int) -> list[Signal]:
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
