"""A reader's rounds, which come as plain values (messages), as frozen types."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState, measured
from isocost.telemetry.nvml import messages
from isocost.telemetry.nvml.messages import Raw
from isocost.telemetry.nvml.rises import Rises
from isocost.telemetry.nvml.sample import (
    GpuCondition,
    GpuIdentity,
    GpuLoad,
    GpuProcess,
    NvLink,
    Round,
)

#: GPUs and slices of a machine whose links and names are the same in round after round.
_MACHINE = 64
_NUMBERS = 1024


def load_round(raw: dict[str, Any]) -> Round[GpuLoad]:
    gpus = (
        GpuLoad(_identity(gpu["identity"]), gpu["lost"], **_signals(gpu)) for gpu in raw["gpus"]
    )
    return Round(raw["taken_s"], tuple(gpus), raw["error"], warnings=tuple(raw["warnings"]))


def condition_round(raw: dict[str, Any], rises: Rises) -> Round[GpuCondition]:
    taken_s = raw["taken_s"]
    gpus = tuple(_condition(gpu, rises, taken_s) for gpu in raw["gpus"])
    rises.forget_others({gpu.identity.uuid for gpu in gpus})
    return Round(
        taken_s,
        gpus,
        raw["error"],
        tuple(raw["xids"]),
        _signal(raw["xids_heard"]),
        tuple(raw["warnings"]),
    )


def _condition(gpu: dict[str, Any], rises: Rises, taken_s: float) -> GpuCondition:
    identity, signals = _identity(gpu["identity"]), _signals(gpu)
    return GpuCondition(
        identity,
        gpu["lost"],
        **signals,
        **rises.add(identity.uuid, signals, taken_s),
        processes=tuple(GpuProcess(pid, _signal(used)) for pid, used in gpu["processes"]),
        links=_links(gpu["links"], tuple(signals[name] for name in messages.NVLINK_ERRORS)),
    )


@lru_cache(_MACHINE)
def _identity(raw: tuple[str, str, str, str]) -> GpuIdentity:
    return GpuIdentity(*raw)


@lru_cache(_MACHINE)
def _links(
    raw: tuple[tuple[int, str, Raw, tuple[Raw, ...]], ...], totals: tuple[Signal, ...]
) -> tuple[NvLink, ...]:
    """``totals`` are the errors of all links together: where a link's own were not read, they say
    whether there are any.
    """
    unread = tuple(ABSENT if total.known and total.value > 0 else total for total in totals)
    return tuple(
        NvLink(number, remote, _signal(active), *(map(_signal, errors) if errors else unread))
        for number, remote, active, errors in raw
    )


def _signals(gpu: dict[str, Any]) -> dict[str, Signal]:
    return {name: _signal(raw) for name, raw in gpu["signals"].items()}


def _signal(raw: Raw) -> Signal:
    if raw is messages.ABSENT:
        return ABSENT
    if raw is messages.UNSUPPORTED:
        return UNSUPPORTED
    if isinstance(raw, tuple):
        is_measured, value, age_s = raw
        return Signal(SignalState.MEASURED if is_measured else SignalState.STALE, value, age_s)
    return _measured(raw)


#: Most numbers are the same in round after round: zeros, widths, temperatures.
_measured = lru_cache(_NUMBERS)(measured)
