"""The health table: what the hardware's signals do to a node, each row with where it comes from.

docs/node-states.md shows the same table. Sources are NVIDIA's documents: "Xid Errors"
(docs.nvidia.com/deploy/xid-errors) with its Xid catalog, whose column "Immediate Action" is meant
where a row names an action in capitals; "GPU Memory Error Management"
(docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt); "NVML API Reference"; "DCGM", its health checks
and their error thresholds; "Health Validation", its check catalog.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from isocost.model import ABSENT, UNSUPPORTED, HealthSignals, Signal, SignalState

#: A bad reading that has become old goes on to count for so long: a reader that hangs is killed
#: and there again within it, and a reader that stays away proves nothing any more.
STALE_S = 30.0

#: A finding ends this long after it was last seen: a GPU at its thermal limit slows down every few
#: seconds, and its share must not follow that up and down.
HOLD_S = 10.0

#: What a row that lowers leaves of the share: a clock cut "by a factor of 2 or more", half of the
#: lanes, a generation less are all about a half, and so are faults of an unknown extent.
LOWERED = 0.5

#: What is left where hardly any NVLink is up: a node without any share could show nothing.
LEAST = 0.05

#: The agent remembers Xids for ten minutes after the last one.
_XID_MEMORY_S = 600.0

#: nvmlClocksEventReasons: SW thermal, HW slowdown, HW thermal, HW power brake. Not 0x4: engines run
#: at their power cap.
_SLOWED = 0x20 | 0x08 | 0x40 | 0x80


class Action(enum.IntEnum):
    """What a finding does to its node, the strongest last."""

    IGNORE = 0
    LOWER = 1
    DRAIN = 2
    EJECT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: ``name`` labels metrics; ``looks_at``, ``clears`` and ``source`` are for people.

    ``under_load``: it holds only while the GPU works; ``after_s``: only if it is seen for so long.
    """

    name: str
    action: Action
    looks_at: str
    clears: str
    source: str
    under_load: bool = False
    after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRow(Row):
    """A row about one reading of a GPU's health, ``bad`` from some value on."""

    read: Callable[[HealthSignals], Signal]
    bad: Callable[[float], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class XidRow(Row):
    """A row about Xids, which counts for ``lasts_s`` after the last one."""

    numbers: frozenset[int]
    lasts_s: float


def _part(part: Signal, whole: Signal) -> Signal:
    """``part`` of ``whole`` as a ratio, known if both are, as stale as the worse."""
    if SignalState.UNSUPPORTED in (part.state, whole.state):
        return UNSUPPORTED
    if not (part.known and whole.known and whole.value > 0.0):
        return ABSENT
    state = max(part.state, whole.state)
    return Signal(state, part.value / whole.value, max(part.age_s, whole.age_s))


_WHEN_NOT_SEEN = "10 s after it was last seen"

GPU_LOST = Row(
    name="gpu_lost",
    action=Action.EJECT,
    looks_at="the driver says that the GPU is lost or must be reset",
    clears="10 s after the GPU answers again",
    source="NVML API Reference, nvmlReturn_t: GPU_IS_LOST, RESET_REQUIRED",
)

XID_FATAL = XidRow(
    name="xid_fatal",
    action=Action.EJECT,
    looks_at="Xid 46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 158",
    clears="10 min after the last one, or with a restart of the agent",
    source="Xid catalog: RESET_GPU (48: WORKFLOW_XID_48, which resets; 79: RESTART_BM)",
    numbers=frozenset({46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 158}),
    lasts_s=_XID_MEMORY_S,
)

ROW_REMAP_FAILED = SignalRow(
    name="row_remap_failed",
    action=Action.EJECT,
    looks_at="a row of the memory could not be remapped",
    clears=_WHEN_NOT_SEEN + ": the GPU is replaced",
    source="GPU Memory Error Management, RMA Policy Thresholds for Row-Remapping",
    read=lambda health: health.row_remap_failed,
    bad=lambda value: value > 0.0,
)

ROW_REMAP_PENDING = SignalRow(
    name="row_remap_pending",
    action=Action.DRAIN,
    looks_at="a row of the memory is remapped at the next reset",
    clears=_WHEN_NOT_SEEN + ": the GPU is reset",
    source="GPU Memory Error Management, Error Recovery and Response Flags",
    read=lambda health: health.row_remap_pending,
    bad=lambda value: value > 0.0,
)

ECC_UNCORRECTED = SignalRow(
    name="ecc_uncorrected",
    action=Action.DRAIN,
    looks_at="ECC errors that were not corrected, since the driver was loaded: 1 or more",
    clears=_WHEN_NOT_SEEN + ": the GPU is reset",
    source='Xid Errors, Xid 48: "a GPU reset or node reboot is needed to clear this error"',
    read=lambda health: health.ecc_uncorrected,
    bad=lambda value: value > 0.0,
)

CUDA_HANDLES = Row(
    name="cuda_handles",
    action=Action.DRAIN,
    looks_at="a process of the engine that lives has lost half of its files on NVIDIA's devices",
    clears="10 s after the process has them again, or another one runs",
    source="by experience: an engine in this state answers, until it needs the GPU",
)

NVLINKS_ALL_DOWN = Row(
    name="nvlinks_all_down",
    action=Action.DRAIN,
    looks_at="none of the GPU's NVLinks is up",
    clears=_WHEN_NOT_SEEN,
    source="Health Validation, nvlink_active: drain",
)

XID_WATCHED = XidRow(
    name="xid_watched",
    action=Action.LOWER,
    looks_at="Xid 61, 74, 94, 144 to 150, 155, 156",
    clears="2 min after the last one",
    source="Xid catalog: what to do depends on more than the number (74: WORKFLOW_NVLINK_ERR; 144 "
    "to 150: WORKFLOW_NVLINK5_ERR), or the cause is software or ends well (155, 156); Xid Errors: "
    "a reset when convenient (94), a warning of the micro-controller (61)",
    numbers=frozenset({61, 74, 94, *range(144, 151), 155, 156}),
    # One event of a link says little after some minutes; what goes on comes again.
    lasts_s=120.0,
)

NVLINKS_DOWN = Row(
    name="nvlinks_down",
    action=Action.LOWER,
    looks_at="some of the GPU's NVLinks are down: the share is the part that is up",
    clears=_WHEN_NOT_SEEN,
    source="NVML API Reference, nvmlDeviceGetNvLinkState",
)

NVLINK_CRC = SignalRow(
    name="nvlink_crc",
    action=Action.LOWER,
    looks_at="NVLink CRC errors: 6,000 or more in a minute",
    clears=_WHEN_NOT_SEEN,
    source="DCGM, health check of NVLink: CRC errors matter from 100 per second on",
    read=lambda health: health.nvlink_crc_errors_per_minute,
    bad=lambda value: value >= 6000.0,
)

NVLINK_RECOVERIES = SignalRow(
    name="nvlink_recoveries",
    action=Action.LOWER,
    looks_at="NVLink replays and recoveries: 1 or more in a minute",
    clears=_WHEN_NOT_SEEN,
    source="DCGM, health check of NVLink: one replay or recovery fails it",
    read=lambda health: health.nvlink_recoveries_per_minute,
    bad=lambda value: value >= 1.0,
)

PCIE_WIDTH = SignalRow(
    name="pcie_width",
    action=Action.LOWER,
    looks_at="fewer PCIe lanes than GPU and slot have",
    clears=_WHEN_NOT_SEEN,
    source="NVML API Reference, nvmlDeviceGetMaxPcieLinkWidth",
    read=lambda health: _part(health.pcie_width, health.pcie_width_max),
    bad=lambda value: value < 1.0,
)

PCIE_GENERATION = SignalRow(
    name="pcie_generation",
    action=Action.LOWER,
    looks_at="a lower PCIe generation than GPU and slot have, while the GPU works, for 3 s: "
    "a GPU without work lowers it by itself",
    clears=_WHEN_NOT_SEEN,
    source="NVML API Reference, nvmlDeviceGetCurrPcieLinkGeneration",
    read=lambda health: _part(health.pcie_generation, health.pcie_generation_max),
    bad=lambda value: value < 1.0,
    under_load=True,
    # The link is read once a second, and utilisation five times: what was read before the work
    # began must be gone.
    after_s=3.0,
)

PCIE_REPLAYS = SignalRow(
    name="pcie_replays",
    action=Action.LOWER,
    looks_at="PCIe replays: more than 8 in a minute",
    clears=_WHEN_NOT_SEEN,
    source="DCGM, health check of PCIe: 8 per minute are the most",
    read=lambda health: health.pcie_replays_per_minute,
    bad=lambda value: value > 8.0,
)

CLOCKS_SLOWED = SignalRow(
    name="clocks_slowed",
    action=Action.LOWER,
    looks_at="clocks lowered for heat (0x20, 0x40), by a power brake (0x80) or by the hardware "
    "(0x8); a power cap (0x4) is normal",
    clears=_WHEN_NOT_SEEN,
    source='NVML API Reference, NvmlClocksEventReasons: "by a factor of 2 or more"',
    read=lambda health: health.clocks_event_reasons,
    bad=lambda value: bool(int(value) & _SLOWED),
)

XID_NOTED = XidRow(
    name="xid_noted",
    action=Action.IGNORE,
    looks_at="Xid 63, 92, 121, 154",
    clears="10 min after the last one",
    source="Xid catalog: IGNORE (63, 92: what they lead to has rows of its own), no operational "
    "impact (121), told by another Xid (154)",
    numbers=frozenset({63, 92, 121, 154}),
    lasts_s=_XID_MEMORY_S,
)

XID_APPLICATION = XidRow(
    name="xid_application",
    action=Action.IGNORE,
    looks_at="Xid 8, 11, 13, 31, 43, 45, 68, 69, 137",
    clears="10 min after the last one",
    source="Xid catalog: RESTART_APP, or a consequence of another one (43, 45)",
    numbers=frozenset({8, 11, 13, 31, 43, 45, 68, 69, 137}),
    lasts_s=_XID_MEMORY_S,
)

XID_OTHER = XidRow(
    name="xid_other",
    action=Action.IGNORE,
    looks_at="any other Xid",
    clears="10 min after the last one",
    source="not judged: shown for people",
    numbers=frozenset(),
    lasts_s=_XID_MEMORY_S,
)

SIGNAL_ROWS = (
    ROW_REMAP_FAILED,
    ROW_REMAP_PENDING,
    ECC_UNCORRECTED,
    NVLINK_CRC,
    NVLINK_RECOVERIES,
    PCIE_WIDTH,
    PCIE_GENERATION,
    PCIE_REPLAYS,
    CLOCKS_SLOWED,
)

_XID_ROWS = (XID_FATAL, XID_WATCHED, XID_NOTED, XID_APPLICATION)

#: All rows, the strongest action first.
ROWS: tuple[Row, ...] = tuple(
    sorted(
        (
            GPU_LOST,
            *_XID_ROWS,
            XID_OTHER,
            CUDA_HANDLES,
            NVLINKS_ALL_DOWN,
            NVLINKS_DOWN,
            *SIGNAL_ROWS,
        ),
        key=lambda row: -row.action,
    )
)

_ROW_OF_XID = {number: row for row in _XID_ROWS for number in row.numbers}


def xid_row(number: int) -> XidRow:
    return _ROW_OF_XID.get(number, XID_OTHER)
