"""Reads the machine's GPUs through NVML, in a process of its own (child): a call can hang, or end
the process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState, measured
from isocost.telemetry.nvml.calls import (
    CONDITION,
    LOAD,
    LOST,
    UNSUPPORTING,
    WITHOUT_DRIVER,
    Call,
    compute_processes,
    link_calls,
    link_name,
    memory,
    text,
)
from isocost.telemetry.nvml.events import XidEvents
from isocost.telemetry.nvml.sample import (
    GpuCondition,
    GpuIdentity,
    GpuLoad,
    GpuProcess,
    Item,
    NvLink,
    Round,
    aged,
)

#: After a lost GPU or driver, at first; then twice as long each time, up to the usual time between
#: two scans.
RESCAN_SOON_S = 1.0


@dataclass(slots=True)
class _Device:
    """``handle`` None: known from an earlier scan, and NVML does not open it now."""

    handle: Any
    identity: GpuIdentity
    links: tuple[tuple[int, str], ...] = ()
    lost: bool = False
    #: As of the last time that they could be read.
    processes: tuple[GpuProcess, ...] = ()

    @property
    def is_slice(self) -> bool:
        return self.identity.parent_uuid != ""


class Reader:
    """One user of NVML; not for threads. ``clock`` is monotonic.

    A value that cannot be read is the last one, stale, with its age; absent if there was none.
    NVML's list of GPUs and slices is as of its initialisation, so it is initialised again every
    ``rescan_s`` to see those that came.
    """

    def __init__(self, clock: Callable[[], float], rescan_s: float) -> None:
        self._clock = clock
        self._rescan_s = rescan_s
        self._open = False
        self._scan_at_s = clock()
        self._soon_s = RESCAN_SOON_S
        self._trouble = False
        self._error = ""
        self._devices: list[_Device] = []
        self._events = XidEvents()
        self._kept: dict[tuple[str, str], tuple[float, float]] = {}
        #: By UUID: GPUs on which only the first version of the memory call works.
        self._old_memory: set[str] = set()

    @property
    def scan_due(self) -> bool:
        return self._clock() >= self._scan_at_s

    def scan(self, xids: bool = False) -> None:
        """Open NVML anew and list its GPUs; ``xids``: listen for theirs."""
        self._scan_at_s = self._clock() + self._rescan_s
        try:
            self._reopen()
            self._list()
            self._error = ""
        except pynvml.NVMLError as error:
            self._lose_driver(error)
            return
        uuids = {"", *(device.identity.uuid for device in self._devices)}
        self._kept = {key: value for key, value in self._kept.items() if key[0] in uuids}
        if xids:
            self._events.listen(
                [(d.identity.uuid, d.handle) for d in self._devices if d.handle and not d.is_slice]
            )

    def load(self) -> Round[GpuLoad]:
        """The fast signals: a few short calls for each GPU."""
        started_s = self._begin()
        gpus = [
            GpuLoad(device.identity, **self._signals(device, self._load_calls(device)))
            for device in self._devices
        ]
        self._end()
        return Round(started_s, tuple(self._marked(gpus)), self._error)

    def condition(self) -> Round[GpuCondition]:
        """The slow signals: hundreds of calls, and 40 ms a GPU for its PCIe throughput."""
        started_s = self._begin()
        whole = {
            device.identity.uuid: GpuCondition(
                device.identity,
                **self._signals(device, CONDITION),
                links=tuple(self._link(device, *link) for link in device.links),
            )
            for device in self._devices
            if not device.is_slice
        }
        gpus = []
        for device in self._devices:
            condition = whole[device.identity.parent_uuid or device.identity.uuid]
            gpus.append(
                dataclasses.replace(condition, identity=device.identity, **self._processes(device))
            )
        xids, alive = self._events.drain() if self._open else ((), False)
        heard = self._events.heard
        if alive:
            self._keep("", "xids", heard)
        else:
            heard = self._last("", "xids") if heard.known else heard
            self._trouble = self._trouble or self._events.listening
        self._end()
        return Round(started_s, tuple(self._marked(gpus)), self._error, xids, heard)

    # -- Scanning ------------------------------------------------------------------------------

    def _reopen(self) -> None:
        if self._open:
            self._open = False
            # Nothing of the former state is worth an error: it is left either way.
            for close in (self._events.close, pynvml.nvmlShutdown):
                try:
                    close()
                except pynvml.NVMLError:
                    continue
        pynvml.nvmlInit()
        self._open = True

    def _list(self) -> None:
        found: list[_Device] = []
        unreadable = 0
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                device = _Device(handle, _identity(handle), _links(handle))
                found += [device, *_slices(device)]
            except pynvml.NVMLError as error:
                if error.value in WITHOUT_DRIVER:
                    raise
                # A container may not see all the GPUs of its machine.
                unreadable += error.value != pynvml.NVML_ERROR_NO_PERMISSION
        # A GPU that NVML lists but does not open has no UUID there: it is one of those that went.
        uuids = {device.identity.uuid for device in found}
        gone = [device for device in self._devices if device.identity.uuid not in uuids]
        lost = [device for device in gone if not device.is_slice][:unreadable]
        lost_uuids = {device.identity.uuid for device in lost}
        lost += [device for device in gone if device.identity.parent_uuid in lost_uuids]
        for device in lost:
            device.handle = None
        self._devices = found + lost
        self._trouble = self._trouble or unreadable > 0

    def _lose_driver(self, error: Exception) -> None:
        self._trouble = True
        self._error = f"NVML: {error}"
        for device in self._devices:
            device.handle = None

    # -- One round -----------------------------------------------------------------------------

    def _begin(self) -> float:
        for device in self._devices:
            device.lost = device.handle is None and not self._error
            self._trouble = self._trouble or device.handle is None
        return self._clock()

    def _end(self) -> None:
        """After trouble NVML is opened anew, the sooner the newer the trouble is."""
        if not self._trouble and not self._error:
            self._soon_s = RESCAN_SOON_S
        elif self._scan_at_s > self._clock() + self._soon_s:
            self._scan_at_s = self._clock() + self._soon_s
            self._soon_s = min(2 * self._soon_s, self._rescan_s)
        self._trouble = False

    def _marked(self, gpus: Sequence[Item]) -> Iterator[Item]:
        lost = {device.identity.uuid for device in self._devices if device.lost}
        for gpu in gpus:
            gone = gpu.identity.uuid in lost or gpu.identity.parent_uuid in lost
            yield dataclasses.replace(gpu, lost=gone)

    def _signals(self, device: _Device, calls: Iterable[Call]) -> dict[str, Any]:
        signals: dict[str, Any] = {}
        for call in calls:
            signals |= self._read(device, call)
        return signals

    def _load_calls(self, device: _Device) -> tuple[Call, ...]:
        return (memory(device.identity.uuid, self._old_memory), *LOAD)

    def _link(self, device: _Device, link: int, remote: str) -> NvLink:
        signals = self._signals(device, link_calls(link))
        prefix = len(link_name(link, ""))
        return NvLink(link, remote, **{name[prefix:]: signals[name] for name in signals})

    def _processes(self, device: _Device) -> dict[str, Any]:
        listed: list[GpuProcess] = []

        def count(handle: Any) -> tuple[float]:
            for process in compute_processes(handle):
                used = process.usedGpuMemory
                known = UNSUPPORTED if used is None else measured(float(used))
                listed.append(GpuProcess(process.pid, known))
            return (float(len(listed)),)

        (signal,) = self._read(device, Call(("compute_processes",), count)).values()
        if signal.state is SignalState.STALE:
            listed = [aged(process, signal.age_s, fresh_s=-1.0) for process in device.processes]
        else:
            device.processes = tuple(listed)
        return {"compute_processes": signal, "processes": tuple(listed)}

    def _read(self, device: _Device, call: Call) -> dict[str, Signal]:
        """One call's signals; a failure is each one's own."""
        uuid = device.identity.uuid
        if device.handle is None:
            return {name: self._last(uuid, name) for name in call.names}
        try:
            values = call.read(device.handle)
        except pynvml.NVMLError as error:
            return self._failed(device, call, error.value)
        taken_s = self._clock()
        for name, value in zip(call.names, values, strict=True):
            if value is not None:
                self._kept[uuid, name] = (value, taken_s)
        return {
            name: UNSUPPORTED if value is None else measured(value)
            for name, value in zip(call.names, values, strict=True)
        }

    def _failed(self, device: _Device, call: Call, code: int) -> dict[str, Signal]:
        if code in UNSUPPORTING:
            return dict.fromkeys(call.names, UNSUPPORTED)
        if code in LOST:
            device.lost = True
        self._trouble = self._trouble or code in LOST or code in WITHOUT_DRIVER
        return {name: self._last(device.identity.uuid, name) for name in call.names}

    def _keep(self, uuid: str, name: str, signal: Signal) -> None:
        if signal.known:
            self._kept[uuid, name] = (signal.value, self._clock())

    def _last(self, uuid: str, name: str) -> Signal:
        kept = self._kept.get((uuid, name))
        if kept is None:
            return ABSENT
        value, taken_s = kept
        return Signal(SignalState.STALE, value, self._clock() - taken_s)


def _identity(handle: Any, parent: GpuIdentity | None = None) -> GpuIdentity:
    uuid = text(pynvml.nvmlDeviceGetUUID(handle))
    if parent is not None:
        return GpuIdentity(uuid, parent.name, parent.pci_bus_id, parent.uuid)
    return GpuIdentity(
        uuid,
        _or_unknown(lambda: pynvml.nvmlDeviceGetName(handle)),
        _or_unknown(lambda: pynvml.nvmlDeviceGetPciInfo(handle).busId),
    )


def _or_unknown(read: Callable[[], Any]) -> str:
    """A name that cannot be read costs no GPU."""
    try:
        return text(read())
    except (pynvml.NVMLError, UnicodeDecodeError):
        return ""


def _links(handle: Any) -> tuple[tuple[int, str], ...]:
    """The NVLinks that the GPU has, each with the bus id at its other end."""
    links = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            pynvml.nvmlDeviceGetNvLinkState(handle, link)
        except pynvml.NVMLError as error:
            if error.value in UNSUPPORTING or error.value == pynvml.NVML_ERROR_INVALID_ARGUMENT:
                continue
        links.append((link, _remote(handle, link)))
    return tuple(links)


def _remote(handle: Any, link: int) -> str:
    return _or_unknown(lambda: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)


def _slices(device: _Device) -> list[_Device]:
    """The MIG slices of a GPU; none where it has no such mode."""
    slices = []
    try:
        if pynvml.nvmlDeviceGetMigMode(device.handle)[0] != 1:
            return []
        for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(device.handle)):
            try:
                handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(device.handle, index)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_NOT_FOUND:
                    raise
                continue
            slices.append(_Device(handle, _identity(handle, device.identity)))
    except pynvml.NVMLError:
        return slices
    return slices
