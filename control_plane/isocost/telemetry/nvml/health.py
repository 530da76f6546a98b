"""What an agent reports of a GPU's health."""

from __future__ import annotations

from typing import Any

from isocost.model import HealthSignals, Signal, SignalState, Xid, measured
from isocost.telemetry.nvml.sample import GpuCondition

_FROM_CONDITION = (
    "pcie_generation",
    "pcie_generation_max",
    "pcie_width",
    "pcie_width_max",
    "ecc_corrected",
    "ecc_uncorrected",
    "row_remap_pending",
    "row_remap_failed",
    "temperature_celsius",
    "clocks_event_reasons",
    "compute_processes",
    "pcie_replays_per_minute",
    "nvlink_crc_errors_per_minute",
    "nvlink_recoveries_per_minute",
)


def health_signals(
    condition: GpuCondition, reading: bool, xids: tuple[Xid, ...] = ()
) -> HealthSignals:
    """``condition`` with ages as of its reading; not ``reading``: it does not come any more."""
    signals: dict[str, Any] = {
        name: _signal(getattr(condition, name), reading) for name in _FROM_CONDITION
    }
    return HealthSignals(**signals, xids=xids)


def _signal(signal: Signal, reading: bool) -> Signal:
    """A measured signal's age goes: with it the same health would be told anew each time."""
    if signal.state is not SignalState.MEASURED:
        return signal
    if not reading:
        return Signal(SignalState.STALE, signal.value, signal.age_s)
    return signal if signal.age_s == 0 else measured(signal.value)
