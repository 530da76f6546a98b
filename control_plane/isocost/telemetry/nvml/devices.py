"""The GPUs and MIG slices that NVML lists, each with its NVLinks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import pynvml

from isocost.telemetry.nvml.calls import (
    UNSUPPORTING,
    WITHOUT_DRIVER,
    Call,
    link_errors,
    link_state,
    text,
)
from isocost.telemetry.nvml.messages import Raw


class Link(NamedTuple):
    """``remote`` is the bus id at the other end."""

    number: int
    remote: str
    state: Call
    errors: tuple[Call, ...]


class Device:
    """``handle`` None: known from an earlier scan, and NVML does not open it now. ``index`` is that
    of the GPU in NVML's list, also of a slice.
    """

    __slots__ = (
        "handle",
        "index",
        "links",
        "lost",
        "name",
        "parent_uuid",
        "pci_bus_id",
        "processes",
        "silent",
        "slices",
        "uuid",
    )

    def __init__(self, handle: Any, index: int, parent: Device | None = None) -> None:
        self.handle = handle
        self.index = index
        self.uuid = text(pynvml.nvmlDeviceGetUUID(handle))
        if parent is None:
            self.name = _or_unknown(lambda: pynvml.nvmlDeviceGetName(handle))
            self.pci_bus_id = _or_unknown(lambda: pynvml.nvmlDeviceGetPciInfo(handle).busId)
            self.parent_uuid = ""
            self.links = _links(handle)
            self.slices = slices(handle)
        else:
            self.name, self.pci_bus_id = parent.name, parent.pci_bus_id
            self.parent_uuid = parent.uuid
            self.links = ()
            self.slices = {}
        #: In this round: NVML says that it is gone; it answers nothing.
        self.lost = False
        self.silent = False
        #: As of the last time that they could be read.
        self.processes: list[tuple[int, Raw]] = []

    @property
    def is_slice(self) -> bool:
        return self.parent_uuid != ""


def find(skip: Collection[int], at: Callable[[int], None]) -> tuple[list[Device], int]:
    """All but those with an index in ``skip``, and how many are listed and cannot be opened; ``at``
    is told whose turn it is. NVMLError: no driver answers.
    """
    found: list[Device] = []
    unreadable = 0
    for index in range(pynvml.nvmlDeviceGetCount()):
        if index in skip:
            continue
        at(index)
        try:
            device = Device(pynvml.nvmlDeviceGetHandleByIndex(index), index)
            found += [device, *(Device(part, index, device) for part in device.slices.values())]
        except pynvml.NVMLError as error:
            if error.value in WITHOUT_DRIVER:
                raise
            # A container may not see all the GPUs of its machine.
            unreadable += error.value != pynvml.NVML_ERROR_NO_PERMISSION
    return found, unreadable


def slices(handle: Any) -> dict[str, Any]:
    """The handles of a GPU's MIG slices by UUID; none where it has no such mode. It is asked anew
    while NVML is open: unlike GPUs, slices come and go.
    """
    found: dict[str, Any] = {}
    try:
        if pynvml.nvmlDeviceGetMigMode(handle)[0] != 1:
            return {}
        for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                slice_handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_NOT_FOUND:
                    raise
                continue
            found[text(pynvml.nvmlDeviceGetUUID(slice_handle))] = slice_handle
    except pynvml.NVMLError:
        return found
    return found


def _or_unknown(read: Callable[[], Any]) -> str:
    """A name that cannot be read costs no GPU."""
    try:
        return text(read())
    except (pynvml.NVMLError, UnicodeDecodeError):
        return ""


def _links(handle: Any) -> tuple[Link, ...]:
    """The NVLinks that the GPU has."""
    links = []
    for number in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            pynvml.nvmlDeviceGetNvLinkState(handle, number)
        except pynvml.NVMLError as error:
            if error.value in UNSUPPORTING or error.value == pynvml.NVML_ERROR_INVALID_ARGUMENT:
                continue
        remote = _remote(handle, number)
        links.append(Link(number, remote, link_state(number), link_errors(number)))
    return tuple(links)


def _remote(handle: Any, link: int) -> str:
    return _or_unknown(lambda: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)
