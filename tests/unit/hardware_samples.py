"""Samples of nodes whose hardware is well, but for what a test says."""

from __future__ import annotations

from dataclasses import replace

from isocost.model import (
    GpuSample,
    HealthSignals,
    Node,
    NodeSample,
    Signal,
    SignalState,
    Xid,
    measured,
)
from tests.unit.fleet_builder import sample

#: When samples are taken, by their agent's clock.
TAKEN_S = 5000.0

WELL = HealthSignals(
    pcie_generation=measured(5),
    pcie_generation_max=measured(5),
    pcie_width=measured(16),
    pcie_width_max=measured(16),
    pcie_replays_per_minute=measured(0),
    nvlink_crc_errors_per_minute=measured(0),
    nvlink_recoveries_per_minute=measured(0),
    ecc_corrected=measured(12),
    ecc_uncorrected=measured(0),
    row_remap_pending=measured(0),
    row_remap_failed=measured(0),
    temperature_celsius=measured(60),
    clocks_event_reasons=measured(0x4),
    compute_processes=measured(1),
)


def health(**changes: Signal | float) -> HealthSignals:
    """Well, but for these; numbers are measured."""
    signals = {
        name: value if isinstance(value, Signal) else measured(value)
        for name, value in changes.items()
    }
    return replace(WELL, **signals)


def xids(*numbers: int, age_s: float = 0.0) -> HealthSignals:
    """Well, but for Xids that came so long before the sample was taken."""
    return replace(WELL, xids=tuple(Xid(number, 1, TAKEN_S - age_s) for number in numbers))


def gpu(
    of: HealthSignals | None = WELL,
    uuid: str = "GPU-0",
    links: Signal | float = 1.0,
    busy: Signal | float = 0.5,
    lost: bool = False,
    health_age_s: float = 0.0,
) -> GpuSample:
    return GpuSample(
        uuid,
        vram_total_bytes=measured(80e9),
        vram_free_bytes=measured(10e9),
        gpu_utilisation=busy if isinstance(busy, Signal) else measured(busy),
        pcie_bytes_per_s=measured(0),
        nvlink_active_fraction=links if isinstance(links, Signal) else measured(links),
        lost=lost,
        health=of,
        health_age_s=health_age_s,
    )


def with_gpus(of: Node, *gpus: GpuSample, handles_dropped: bool = False) -> NodeSample:
    return replace(sample(of), gpus=gpus, cuda_handles_dropped=handles_dropped, taken_s=TAKEN_S)


def stale(value: float, age_s: float) -> Signal:
    return Signal(SignalState.STALE, value, age_s)
