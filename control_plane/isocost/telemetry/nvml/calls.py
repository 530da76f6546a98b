"""Which NVML call gives which signals, in which unit, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pynvml

from isocost.telemetry.nvml.messages import NVLINK_ERRORS

#: This GPU, driver or container does not tell it, however often it is asked.
UNSUPPORTING = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
#: The GPU fell off the bus, or works again only after a reset.
LOST = frozenset(
    {
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
    }
)
#: NVML as a whole answers nothing until it is initialised again.
WITHOUT_DRIVER = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
#: On a MIG slice: it is not there any more, and its handle is none.
SLICE_GONE = frozenset({pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_FOUND})
#: NVML's rates are in KB/s.
_KB = 1000.0
_NVLINK_TOTALS = (
    pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
)
_LINK_COUNTERS = (
    pynvml.NVML_NVLINK_ERROR_DL_CRC_FLIT,
    pynvml.NVML_NVLINK_ERROR_DL_CRC_DATA,
    pynvml.NVML_NVLINK_ERROR_DL_REPLAY,
    pynvml.NVML_NVLINK_ERROR_DL_RECOVERY,
)
_FIELD_TYPES = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


class Call(NamedTuple):
    """``read`` gives a value for each name; None: unsupported. ValueError: it cannot be true."""

    names: tuple[str, ...]
    read: Callable[[Any], Sequence[float | None]]


def _one(name: str, read: Callable[..., Any], *arguments: Any, unit: float = 1.0) -> Call:
    return Call((name,), lambda handle: (read(handle, *arguments) * unit,))


def _utilisation(handle: Any) -> tuple[float, float]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    if max(rates.gpu, rates.memory) > 100:
        raise ValueError(f"NVML's utilisation is {max(rates.gpu, rates.memory)} %")
    return rates.gpu / 100, rates.memory / 100


def _clocks_event_reasons(handle: Any) -> Any:
    try:
        return pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
    # The name that drivers before 535 have for it.
    return pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)


def _nvlink_errors(handle: Any) -> Sequence[float | None]:
    """Of all the GPU's links together, in one call: 72 calls for each link's own counters would be
    most of what a reader does, and are made only where these are not 0. DCGM's health check reads
    the same totals.
    """
    return [_field(field) for field in pynvml.nvmlDeviceGetFieldValues(handle, _NVLINK_TOTALS)]


def _field(field: Any) -> float | None:
    if field.nvmlReturn in UNSUPPORTING:
        return None
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(field.nvmlReturn)
    return float(getattr(field.value, _FIELD_TYPES[field.valueType]))


LOAD = (Call(("gpu_utilisation", "memory_busy"), _utilisation),)

#: Read in each round.
CONDITION = (
    _one("pcie_generation", pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
    _one("pcie_width", pynvml.nvmlDeviceGetCurrPcieLinkWidth),
    _one("pcie_replays", pynvml.nvmlDeviceGetPcieReplayCounter),
    _one(
        "ecc_corrected",
        pynvml.nvmlDeviceGetTotalEccErrors,
        pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    ),
    _one(
        "ecc_uncorrected",
        pynvml.nvmlDeviceGetTotalEccErrors,
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
    ),
    _one(
        "ecc_uncorrected_ever",
        pynvml.nvmlDeviceGetTotalEccErrors,
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_AGGREGATE_ECC,
    ),
    Call(
        (
            "rows_remapped_corrected",
            "rows_remapped_uncorrected",
            "row_remap_pending",
            "row_remap_failed",
        ),
        pynvml.nvmlDeviceGetRemappedRows,
    ),
    _one("temperature_celsius", pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
    _one("power_watts", pynvml.nvmlDeviceGetPowerUsage, unit=1e-3),
    _one("clocks_event_reasons", _clocks_event_reasons),
    Call(("mig_enabled",), lambda handle: pynvml.nvmlDeviceGetMigMode(handle)[:1]),
    Call(NVLINK_ERRORS, _nvlink_errors),
)

#: Read of a few GPUs in each round: a call for a throughput takes 20 ms, over which it measures.
IN_TURN = (
    _one("pcie_generation_max", pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
    _one("pcie_width_max", pynvml.nvmlDeviceGetMaxPcieLinkWidth),
    _one(
        "pcie_tx_bytes_per_s",
        pynvml.nvmlDeviceGetPcieThroughput,
        pynvml.NVML_PCIE_UTIL_TX_BYTES,
        unit=_KB,
    ),
    _one(
        "pcie_rx_bytes_per_s",
        pynvml.nvmlDeviceGetPcieThroughput,
        pynvml.NVML_PCIE_UTIL_RX_BYTES,
        unit=_KB,
    ),
)


def link_errors(link: int) -> tuple[Call, ...]:
    """The error counters of one NVLink, in the order of NVLINK_ERRORS."""
    return tuple(
        _one(f"link {link} {counter}", pynvml.nvmlDeviceGetNvLinkErrorCounter, link, counter)
        for counter in _LINK_COUNTERS
    )


def link_state(link: int) -> Call:
    """Is the NVLink up?"""
    return _one(f"link {link}", pynvml.nvmlDeviceGetNvLinkState, link)


def memory(uuid: str, old: set[str]) -> Call:
    """The memory of a GPU; ``old`` has, and gets, those on which only the first version of the
    call works. That the library has the second does not mean that it works.
    """

    def read(handle: Any) -> Sequence[float | None]:
        if uuid not in old:
            try:
                info = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
                return _memory_values(info, float(info.reserved))
            except pynvml.NVMLError as error:
                if error.value in LOST or error.value in WITHOUT_DRIVER:
                    raise
        info = pynvml.nvmlDeviceGetMemoryInfo(handle)
        old.add(uuid)
        return _memory_values(info, None)

    names = ("memory_total_bytes", "memory_free_bytes", "memory_used_bytes")
    return Call((*names, "memory_reserved_bytes"), read)


def _memory_values(info: Any, reserved: float | None) -> Sequence[float | None]:
    # A GPU that shares the host's memory has none of its own; some drivers then answer with zeros.
    if info.total == 0:
        return (None, None, None, None)
    # Also what should be negative: the figures have no sign.
    if max(info.free, info.used, reserved or 0) > info.total:
        raise ValueError("NVML's figures of its memory contradict each other")
    return (float(info.total), float(info.free), float(info.used), reserved)


def compute_processes(handle: Any) -> Any:
    """By the versions that the binding names: where the driver's newest is another, the name
    without a version raises what is no NVMLError.
    """
    try:
        return pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    except pynvml.NVMLError as error:
        if error.value != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
    return pynvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)


def text(value: str | bytes) -> str:
    """NVML's text, of which a byte that is not UTF-8 is replaced."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
