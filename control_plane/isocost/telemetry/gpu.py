"""A fake node's telemetry page as GPU samples."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, GpuSample, Signal, measured

_SIGNALS = (
    "vram_total_bytes",
    "vram_free_bytes",
    "gpu_utilisation",
    "pcie_bytes_per_s",
    "nvlink_active_fraction",
)


@dataclass(frozen=True, slots=True)
class GpuPage:
    """The GPUs of one node, and the machine's network."""

    gpus: tuple[GpuSample, ...] = ()
    net_bytes_per_s: Signal = ABSENT


def read_page(page: str) -> GpuPage:
    """TelemetryError: not such a page. A single value that is no number is an absent signal."""
    try:
        data = json.loads(page)
        gpus = data["gpus"]
        return GpuPage(tuple(_gpu(gpu) for gpu in gpus), _signal(data.get("net_bytes_per_s")))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise TelemetryError(f"not a telemetry page: {error!r}") from error


def _gpu(data: dict[str, object]) -> GpuSample:
    uuid = str(data["uuid"])
    uuid.encode()  # JSON can spell text that no message can carry.
    return GpuSample(uuid, **{name: _signal(data.get(name)) for name in _SIGNALS})


def _signal(value: object) -> Signal:
    if value == "unsupported":
        return UNSUPPORTED
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ABSENT
    try:
        number = float(value)
    except OverflowError:
        return ABSENT
    return measured(number) if math.isfinite(number) and number >= 0 else ABSENT
