"""What the health table finds in a sample. Absent and unsupported signals say nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isocost.model import GpuSample, HealthSignals, NodeSample, Signal, SignalState
from isocost.score.health_table import (
    GPU_LOST,
    LEAST,
    LOWERED,
    NVLINKS_ALL_DOWN,
    NVLINKS_DOWN,
    SIGNAL_ROWS,
    STALE_S,
    Action,
    Row,
    SignalRow,
    XidRow,
    xid_row,
)

#: Clocks of one machine do not differ by more; an Xid of a later time is none.
_FUTURE_S = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A row that holds of a GPU, None = of the whole node. ``value`` is what the row looked at:
    the Xid, the count, the part that is left; 1 where it is a yes or no.
    """

    row: Row
    gpu: str | None
    value: float

    @property
    def key(self) -> tuple[str, str | None, float]:
        """Two findings with one key are one that lasts; each Xid is one of its own."""
        return self.row.name, self.gpu, self.value if isinstance(self.row, XidRow) else 0.0

    @property
    def factor(self) -> float:
        """What it leaves of the node's share, in (0,1]."""
        if self.row.action is Action.IGNORE:
            return 1.0
        if self.row is NVLINKS_DOWN or self.row is NVLINKS_ALL_DOWN:
            return max(self.value, LEAST)
        return LOWERED


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What some health shows, whatever the time is: a row holds of it while it is not too old.

    ``age_s`` is that of a signal as of the reading, ``last_s`` when an Xid last came.
    """

    row: SignalRow | XidRow
    value: float
    age_s: float = 0.0
    last_s: float = 0.0


def suspicions(health: HealthSignals | None) -> tuple[Suspicion, ...]:
    """Worth remembering for each object: health that is well shows nothing at any time."""
    if health is None:
        return ()
    found = []
    for row in SIGNAL_ROWS:
        signal = row.read(health)
        if signal.known and row.bad(signal.value):
            found.append(Suspicion(row, signal.value, age_s=signal.age_s))
    for xid in health.xids:
        row_of_xid = xid_row(xid.number)
        found.append(Suspicion(row_of_xid, float(xid.number), last_s=xid.last_s))
    return tuple(found)


def gpu_findings(
    gpu: GpuSample, shown: Sequence[Suspicion], taken_s: float, age_s: float
) -> Iterator[Finding]:
    """What holds of a GPU in a sample taken at ``taken_s`` that arrived ``age_s`` ago; ``shown``
    are the suspicions of its health.
    """
    if gpu.lost and age_s <= STALE_S:
        yield Finding(GPU_LOST, gpu.uuid, 1.0)
    links = gpu.nvlink_active_fraction
    if links.known and links.value < 1.0 and links.age_s + age_s <= STALE_S:
        row = NVLINKS_DOWN if links.value > 0.0 else NVLINKS_ALL_DOWN
        yield Finding(row, gpu.uuid, links.value)
    for item in shown:
        if isinstance(item.row, XidRow):
            before_s = taken_s - item.last_s
            holds = before_s >= -_FUTURE_S and before_s + age_s <= item.row.lasts_s
        else:
            holds = item.age_s + gpu.health_age_s + age_s <= STALE_S
            holds = holds and (not item.row.under_load or _works(gpu.gpu_utilisation))
        if holds:
            yield Finding(item.row, gpu.uuid, item.value)


def unknown_rows(sample: NodeSample, age_s: float) -> list[str]:
    """The rows that can say nothing of some GPU, because what they look at is not known or too
    old. What the hardware does not have is not missing.
    """
    return sorted({row.name for gpu in sample.gpus for row in _unknown(gpu, age_s)})


def _unknown(gpu: GpuSample, age_s: float) -> Iterator[Row]:
    if _missing(gpu.nvlink_active_fraction, age_s):
        yield NVLINKS_DOWN
    for row in SIGNAL_ROWS:
        if gpu.health is None or _missing(row.read(gpu.health), gpu.health_age_s + age_s):
            yield row


def _missing(signal: Signal, age_s: float) -> bool:
    if signal.state is SignalState.UNSUPPORTED:
        return False
    return not signal.known or signal.age_s + age_s > STALE_S


def _works(utilisation: Signal) -> bool:
    return utilisation.state is SignalState.MEASURED and utilisation.value > 0.0
