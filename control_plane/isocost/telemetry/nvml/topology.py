"""The process that asks NVML once how the GPUs are joined, and sends what it says."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pynvml

from isocost.telemetry.nvml.calls import text
from isocost.telemetry.nvml.messages import write
from isocost.telemetry.nvml.output import to_parent
from isocost.telemetry.topology.facts import GpuFacts, NvLinkEnd, NvmlAnswer
from isocost.telemetry.topology.machine import MAX_GPUS, LinkKind

#: INTERNAL is the bridge of a board with two GPUs.
_WAYS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: LinkKind.PIX,
    pynvml.NVML_TOPOLOGY_SINGLE: LinkKind.PIX,
    pynvml.NVML_TOPOLOGY_MULTIPLE: LinkKind.PXB,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: LinkKind.PHB,
    pynvml.NVML_TOPOLOGY_NODE: LinkKind.NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: LinkKind.SYS,
}
_IS_SWITCH = {
    pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH: True,
    pynvml.NVML_NVLINK_DEVICE_TYPE_GPU: False,
    pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU: False,
}
#: What NVML says of an NVLink that the GPU does not have, and of every one in MIG mode.
_NO_SUCH_LINK = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT})

Value = TypeVar("Value")


def main() -> None:
    with to_parent() as out:
        write(out, pickle.dumps(_answer()))


def _answer() -> NvmlAnswer:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return NvmlAnswer(unavailable=str(error))
    try:
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return NvmlAnswer(failed=f"it does not count its GPUs: {error}")
    if count == 0:
        return NvmlAnswer(failed="it lists no GPU")
    if count > MAX_GPUS:
        return NvmlAnswer(failed=f"it lists {count} GPUs; no machine has more than {MAX_GPUS}")
    handles = []
    for index in range(count):
        try:
            handles.append(pynvml.nvmlDeviceGetHandleByIndex(index))
        except pynvml.NVMLError as error:
            # Units proposed without it would be of another machine.
            return NvmlAnswer(failed=f"it does not open GPU{index}: {error}")
    return NvmlAnswer(tuple(_gpu(handles, index) for index in range(count)))


def _gpu(handles: Sequence[Any], index: int) -> GpuFacts:
    handle = handles[index]
    ways = {
        other: _WAYS.get(_told(pynvml.nvmlDeviceGetTopologyCommonAncestor, handle, handles[other]))
        for other in range(index + 1, len(handles))
    }
    return GpuFacts(
        bus_id=_bus_id(pynvml.nvmlDeviceGetPciInfo, handle),
        mig=_mig(handle),
        nvlinks=_nvlinks(handle),
        own_numa_node=_told(pynvml.nvmlDeviceGetNumaNodeId, handle),
        ways={other: way for other, way in ways.items() if way is not None},
    )


def _mig(handle: Any) -> bool | None:
    try:
        return bool(pynvml.nvmlDeviceGetMigMode(handle)[0])
    except pynvml.NVMLError as error:
        return False if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED else None


def _nvlinks(handle: Any) -> tuple[NvLinkEnd, ...] | None:
    ends = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if not pynvml.nvmlDeviceGetNvLinkState(handle, link):
                continue
        except pynvml.NVMLError as error:
            if error.value in _NO_SUCH_LINK:
                continue
            return None
        kind = _told(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        bus_id = _bus_id(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        ends.append(NvLinkEnd(bus_id, _IS_SWITCH.get(kind)))
    return tuple(ends)


def _bus_id(read: Callable[..., Any], *arguments: Any) -> str:
    info = _told(read, *arguments)
    return "" if info is None else text(info.busId)


def _told(read: Callable[..., Value], *arguments: Any) -> Value | None:
    try:
        return read(*arguments)
    except pynvml.NVMLError:
        return None


if __name__ == "__main__":
    main()
