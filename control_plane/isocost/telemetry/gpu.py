"""A fake node's telemetry page as GPU samples."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, GpuSample, Signal, measured

_SIGNALS = (
    "vram_total_bytes",
    "vram_free_bytes",
    "gpu_utilisation",
    "pcie_bytes_per_s",
    "nvlink_active_fraction",
)
#: A clock that far ahead (the year 33658) tells nothing.
MAX_WALL_MS = 1e15


@dataclass(frozen=True, slots=True)
class GpuPage:
    """The GPUs of one node, the machine's network, and its clock if it has one of its own.

    ``whole_machine``: the GPUs are all that the machine has, whoever uses them.
    """

    gpus: tuple[GpuSample, ...] = ()
    net_bytes_per_s: Signal = ABSENT
    wall_unix_s: float | None = None
    whole_machine: bool = False


def read_page(page: str) -> GpuPage:
    """TelemetryError: not such a page. A single value that is no number is an absent signal."""
    try:
        data = json.loads(page)
        gpus = data["gpus"]
        wall_ms = _signal(data.get("wall_unix_ms"))
        return GpuPage(
            tuple(_gpu(gpu) for gpu in gpus),
            _signal(data.get("net_bytes_per_s")),
            wall_ms.value / 1e3 if wall_ms.known and wall_ms.value < MAX_WALL_MS else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise TelemetryError(f"not a telemetry page: {error!r}") from error


def _gpu(data: dict[str, object]) -> GpuSample:
    uuid = str(data["uuid"])
    uuid.encode()  # JSON can spell text that no message can carry.
    signals: dict[str, Any] = {name: _signal(data.get(name)) for name in _SIGNALS}
    return GpuSample(uuid, **signals)


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
