"""What NVML tells of a machine's GPUs, as frozen types."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """A GPU, or a MIG slice of the GPU ``parent_uuid``. Only the UUID is an identity: indices
    change, and a slice has its GPU's bus id.
    """

    uuid: str
    name: str = ""
    pci_bus_id: str = ""
    parent_uuid: str = ""


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """The fast signals of one GPU. ``lost``: NVML says that it is gone or must be reset.

    ``memory_reserved_bytes`` is what the driver keeps for itself; where NVML does not tell it
    apart, it is in ``memory_used_bytes``. Without memory of its own (unified with the host's) a
    GPU's memory signals are unsupported. ``memory_busy`` is the share of time in which memory was
    read or written, and says nothing of how full it is.
    """

    identity: GpuIdentity
    lost: bool = False
    memory_total_bytes: Signal = ABSENT
    memory_free_bytes: Signal = ABSENT
    memory_used_bytes: Signal = ABSENT
    memory_reserved_bytes: Signal = ABSENT
    gpu_utilisation: Signal = ABSENT
    memory_busy: Signal = ABSENT


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that computes on a GPU; in a container its memory is often not told."""

    pid: int
    memory_bytes: Signal = UNSUPPORTED


@dataclass(frozen=True, slots=True)
class NvLink:
    """One NVLink; ``active`` is 0 or 1, the errors are counted since the driver was loaded."""

    link: int
    remote_pci_bus_id: str = ""
    active: Signal = ABSENT
    crc_flit_errors: Signal = ABSENT
    crc_data_errors: Signal = ABSENT
    replays: Signal = ABSENT
    recoveries: Signal = ABSENT


@dataclass(frozen=True, slots=True)
class GpuCondition:
    """The slow signals of one GPU; those of a MIG slice are its GPU's, its processes its own.

    Counters are NVML's own numbers, since the driver was loaded: they wrap and begin anew. Those of
    NVLink are sums over the GPU's links. What the agent makes of them are the rises in the last
    minute (rises): CRC errors of both kinds, recoveries with replays. ``clocks_event_reasons`` is
    NVML's bit mask. ``processes`` is as of the count ``compute_processes``.
    """

    identity: GpuIdentity
    lost: bool = False
    compute_processes: Signal = ABSENT
    pcie_tx_bytes_per_s: Signal = ABSENT
    pcie_rx_bytes_per_s: Signal = ABSENT
    pcie_generation: Signal = ABSENT
    pcie_generation_max: Signal = ABSENT
    pcie_width: Signal = ABSENT
    pcie_width_max: Signal = ABSENT
    pcie_replays: Signal = ABSENT
    ecc_corrected: Signal = ABSENT
    ecc_uncorrected: Signal = ABSENT
    ecc_uncorrected_ever: Signal = ABSENT
    rows_remapped_corrected: Signal = ABSENT
    rows_remapped_uncorrected: Signal = ABSENT
    row_remap_pending: Signal = ABSENT
    row_remap_failed: Signal = ABSENT
    temperature_celsius: Signal = ABSENT
    power_watts: Signal = ABSENT
    clocks_event_reasons: Signal = ABSENT
    mig_enabled: Signal = ABSENT
    nvlink_crc_flit_errors: Signal = ABSENT
    nvlink_crc_data_errors: Signal = ABSENT
    nvlink_replays: Signal = ABSENT
    nvlink_recoveries: Signal = ABSENT
    pcie_replays_per_minute: Signal = ABSENT
    nvlink_crc_errors_per_minute: Signal = ABSENT
    nvlink_recoveries_per_minute: Signal = ABSENT
    processes: tuple[GpuProcess, ...] = ()
    links: tuple[NvLink, ...] = ()


Item = TypeVar("Item", GpuLoad, GpuCondition)


@dataclass(frozen=True, slots=True)
class Round(Generic[Item]):
    """Everything read in one go, at ``taken_s`` of the machine's monotonic clock.

    ``error``: why NVML as a whole did not answer, or "". ``xids`` are those heard since the round
    before, as (UUID, Xid), and ``xids_heard`` is their number since the reader began: silence
    counts as measured only if NVML said that there is none. ``warnings`` are for the log: readings
    that cannot be true.
    """

    taken_s: float
    gpus: tuple[Item, ...] = ()
    error: str = ""
    xids: tuple[tuple[str, int], ...] = ()
    xids_heard: Signal = ABSENT
    warnings: tuple[str, ...] = ()


def aged(value: Any, by_s: float, fresh: bool) -> Any:
    """The same dataclass with every signal in it older by ``by_s``, and stale unless ``fresh``."""
    changes = {
        field.name: _aged(before, by_s, fresh)
        for field in dataclasses.fields(value)
        if isinstance(before := getattr(value, field.name), Signal | tuple)
    }
    return dataclasses.replace(value, **changes)


def _aged(value: Any, by_s: float, fresh: bool) -> Any:
    if isinstance(value, Signal):
        return older(value, by_s, fresh)
    return tuple(
        aged(item, by_s, fresh) if dataclasses.is_dataclass(item) else item for item in value
    )


def older(signal: Signal, by_s: float, fresh: bool) -> Signal:
    """A signal as of ``by_s`` later, stale unless ``fresh``."""
    if not signal.known:
        return signal
    state = signal.state if fresh else SignalState.STALE
    return Signal(state, signal.value, signal.age_s + by_s)


def load_signals(load: GpuLoad) -> dict[str, Any]:
    """Those of a GpuSample that come from the fast loop."""
    return {
        "vram_total_bytes": load.memory_total_bytes,
        "vram_free_bytes": load.memory_free_bytes,
        "gpu_utilisation": load.gpu_utilisation,
    }


def condition_signals(condition: GpuCondition) -> dict[str, Any]:
    """Those of a GpuSample that come from the slow loop."""
    return {
        "pcie_bytes_per_s": total([condition.pcie_tx_bytes_per_s, condition.pcie_rx_bytes_per_s]),
        "nvlink_active_fraction": _active_fraction(condition),
    }


def _active_fraction(condition: GpuCondition) -> Signal:
    links = [link.active for link in condition.links]
    if not links:
        return UNSUPPORTED
    active = total(links)
    return Signal(active.state, active.value / len(links), active.age_s)


def total(signals: Sequence[Signal]) -> Signal:
    """As good as its worst part."""
    value, age_s, state = 0.0, 0.0, SignalState.MEASURED
    for signal in signals:
        if not signal.known:
            return signal
        value += signal.value
        age_s = max(age_s, signal.age_s)
        if signal.state is SignalState.STALE:
            state = signal.state
    return Signal(state, value, age_s)
