"""The DCGM exporter's page as the GPUs of a machine, told apart by UUID."""

from __future__ import annotations

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, GpuSample, Signal, measured
from isocost.telemetry.engines.exposition import PageReader, Point
from isocost.telemetry.engines.page import has_series, is_usable

PREFIXES = ("DCGM_FI_",)
#: MiB.
FREE = "DCGM_FI_DEV_FB_FREE"
USED = "DCGM_FI_DEV_FB_USED"
RESERVED = "DCGM_FI_DEV_FB_RESERVED"
TOTAL = "DCGM_FI_DEV_FB_TOTAL"
#: Percent. (MEM_COPY_UTIL is the memory's bandwidth, not how full it is.)
UTILISATION = "DCGM_FI_DEV_GPU_UTIL"
#: Bytes per second, whatever the page calls their type; of data centre GPUs only.
PCIE = ("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES")

MIB = 2**20
#: DCGM's marks for "no value" are the highest numbers of a type and the three above; the mark two
#: above means not supported. As 64-bit integers they are one and the same float, and not supported
#: is what exporters were seen to print; no value of these series comes near.
BLANK_INT64 = 9.2e18
#: Of 32-bit integers, and of floats.
BLANKS = (2147483632.0, 140737488355328.0)
_READER = PageReader((FREE, USED, RESERVED, TOTAL, UTILISATION, *PCIE))


def read_page(page: str) -> tuple[GpuSample, ...]:
    """All GPUs of the machine, whoever uses them. TelemetryError: the page has nothing of DCGM's.
    Of NVLink the exporter tells no links.
    """
    if not has_series(page, PREFIXES):
        raise TelemetryError("not a DCGM exporter's metrics page")
    gpus: dict[str, dict[str, Signal]] = {}
    sliced: set[str] = set()
    for name, points in _READER.read(page).items():
        for point in points:
            # Without a UUID it is nobody's.
            if uuid := point.labels.get("UUID") or point.labels.get("uuid"):
                part = point.labels.get("GPU_I_ID", "")
                if part:
                    sliced.add(uuid)
                gpus.setdefault(f"{uuid}/{part}" if part else uuid, {})[name] = _signal(point)
    # A GPU in MIG mode is its instances.
    return tuple(_gpu(uuid, told) for uuid, told in gpus.items() if uuid not in sliced)


def _gpu(uuid: str, told: dict[str, Signal]) -> GpuSample:
    free, total = _scaled(told.get(FREE, ABSENT), MIB), _scaled(told.get(TOTAL, ABSENT), MIB)
    if not total.known:
        total = _sum(free, _scaled(told.get(USED, ABSENT), MIB))
        reserved = _scaled(told.get(RESERVED, ABSENT), MIB)
        if total.known and reserved.known:
            total = _sum(total, reserved)
    return GpuSample(
        uuid,
        vram_total_bytes=total,
        vram_free_bytes=free,
        gpu_utilisation=_scaled(told.get(UTILISATION, ABSENT), 0.01),
        pcie_bytes_per_s=_sum(*(told.get(name, ABSENT) for name in PCIE)),
        nvlink_active_fraction=UNSUPPORTED,
    )


def _signal(point: Point) -> Signal:
    value = point.value
    if not is_usable(value):
        return ABSENT
    if value >= BLANK_INT64:
        return UNSUPPORTED
    for blank in BLANKS:
        if blank <= value <= blank + 3:
            return UNSUPPORTED if value == blank + 2 else ABSENT
    return measured(value)


def _scaled(signal: Signal, factor: float) -> Signal:
    return measured(signal.value * factor) if signal.known else signal


def _sum(first: Signal, second: Signal) -> Signal:
    """Known only if both are: a half is not the whole."""
    if first.known and second.known:
        return measured(first.value + second.value)
    return UNSUPPORTED if first == second == UNSUPPORTED else ABSENT
