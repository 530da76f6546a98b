"""Reads the machine's GPUs through NVML, in a process of its own (child): a call can hang, or end
the process. Its rounds are plain values (messages); rounds makes types of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import pynvml

from isocost.telemetry.nvml import devices
from isocost.telemetry.nvml.calls import (
    CONDITION,
    IN_TURN,
    LOAD,
    LOST,
    SLICE_GONE,
    UNSUPPORTING,
    WITHOUT_DRIVER,
    Call,
    compute_processes,
    memory,
)
from isocost.telemetry.nvml.devices import Device
from isocost.telemetry.nvml.events import XidEvents
from isocost.telemetry.nvml.messages import ABSENT, NVLINK_ERRORS, UNSUPPORTED, Raw

#: After a lost GPU or driver, at first; then twice as long each time, up to the usual time between
#: two scans.
RESCAN_SOON_S = 1.0
#: GPUs whose calls that wait are made in one round: 80 ms of it.
TURN_GPUS = 2
#: MIG slices that come or go are looked for so often.
SLICES_S = 0.4
#: So late may a value that is read in turn be before it is stale: as a round may.
TURN_LATE_S = 0.75

Signals = dict[str, Raw]
_TURN_NAMES = tuple(name for call in IN_TURN for name in call.names)


class _Turn(NamedTuple):
    """What was read of a GPU in its turn, and when."""

    signals: Signals
    taken_s: float


class Reader:
    """One user of NVML; not for threads. ``clock`` is monotonic, ``interval_s`` between rounds.

    A value that cannot be read is the last one, stale, with its age; absent if there was none.
    NVML's list of GPUs and slices is as of its initialisation, so it is initialised again where
    one is missed; not without a reason: on a real machine nothing can be read meanwhile.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        interval_s: float,
        rescan_s: float,
        skip: Collection[int] = (),
    ) -> None:
        self._clock = clock
        self._interval_s = interval_s
        self._rescan_s = rescan_s
        self._open = False
        self._scan_at_s = self._slices_at_s = clock()
        self._soon_s = RESCAN_SOON_S
        self._trouble = False
        self._error = ""
        self._warnings: list[str] = []
        self._devices: list[Device] = []
        self._events = XidEvents()
        #: Heard and not told yet.
        self._heard: list[tuple[str, int]] = []
        #: By UUID and name, each value with the time at which it was read; by UUID.
        self._kept: dict[str, dict[str, tuple[float, float]]] = {}
        self._turns: dict[str, _Turn] = {}
        #: By UUID: GPUs on which only the first version of the memory call works.
        self._old_memory: set[str] = set()
        self._skip = frozenset(skip)
        #: The GPU that is asked now, by its index: another object for each group of calls.
        self.at: tuple[int] | None = None

    @property
    def scan_due(self) -> bool:
        return self._clock() >= self._scan_at_s

    def look_again(self, skipped: bool = False) -> None:
        """Someone misses a GPU: scan before the next round; ``skipped``: all of them again."""
        self._scan_at_s = self._clock()
        if skipped:
            self._skip = frozenset()

    def look_at_slices(self) -> None:
        """Scan before the next round if a GPU's MIG slices are not those of the last scan."""
        now_s = self._clock()
        if now_s < self._slices_at_s:
            return
        self._slices_at_s = now_s + SLICES_S
        for device in self._devices:
            known = device.slices.keys()
            if known and device.handle:
                self.at = (device.index,)
                if devices.slices(device.handle).keys() != known:
                    self._scan_at_s = now_s
        self.at = None

    def scan(self, xids: bool = False) -> None:
        """Open NVML anew and list its GPUs; ``xids``: listen for theirs."""
        self._scan_at_s = math.inf
        try:
            self._reopen()
            self._list()
            self._error = ""
        except pynvml.NVMLError as error:
            self.at = None
            self._lose_driver(error)
            return
        uuids = {"", *(device.uuid for device in self._devices)}
        self._kept = {uuid: self._kept.get(uuid, {}) for uuid in uuids}
        self._turns = {uuid: turn for uuid, turn in self._turns.items() if uuid in uuids}
        if xids:
            self._events.listen(
                [(d.uuid, d.handle) for d in self._devices if d.handle and not d.is_slice]
            )

    def load(self) -> dict[str, Any]:
        """The fast signals: a few short calls for each GPU."""
        started_s = self._begin()
        signals = {
            device.uuid: self._signals(
                device, (memory(device.uuid, self._old_memory), *LOAD), started_s
            )
            for device in self._devices
        }
        self._end()
        lost = self._lost()
        gpus = [_gpu(device, lost, signals[device.uuid]) for device in self._devices]
        return self._round(started_s, gpus)

    def condition(self) -> dict[str, Any]:
        """The slow signals, and the Xids that came since the round before."""
        started_s = self._begin()
        whole = [device for device in self._devices if not device.is_slice]
        signals, states, processes = {}, {}, {}
        # What does not wait comes first, so that it is of one moment.
        for device in whole:
            signals[device.uuid] = self._signals(device, CONDITION, started_s)
            calls = [link.state for link in device.links]
            states[device.uuid] = self._signals(device, calls, started_s)
        for device in self._devices:
            processes[device.uuid] = self._processes(device, started_s)
        xids, heard = self._xids(started_s)
        due = {device.uuid for device in self._due(whole)}
        in_turn: dict[str, Signals] = {}
        fresh_s = self._interval_s * math.ceil(len(whole) / TURN_GPUS) + TURN_LATE_S
        for device in whole:
            if device.uuid in due:
                in_turn_now = IN_TURN + self._error_calls(device, signals[device.uuid])
                taken = self._signals(device, in_turn_now, started_s)
                self._turns[device.uuid] = _Turn(taken, started_s)
            in_turn[device.uuid] = self._turn(device, started_s, fresh_s)
        self._end()
        lost = self._lost()
        links = {
            device.uuid: _links(device, states[device.uuid], in_turn[device.uuid])
            for device in whole
        }
        gpus = []
        for device in self._devices:
            parent = device.parent_uuid or device.uuid
            count, listed = processes[device.uuid]
            turn = {name: in_turn[parent][name] for name in _TURN_NAMES}
            gpu = _gpu(device, lost, {**signals[parent], **turn, "compute_processes": count})
            gpus.append({**gpu, "links": links[parent], "processes": listed})
        return {**self._round(started_s, gpus), "xids": xids, "xids_heard": heard}

    # -- Scanning ------------------------------------------------------------------------------

    def _reopen(self) -> None:
        if self._open:
            self._open = False
            # What makes a scan necessary is often an Xid as well.
            self._heard += self._events.drain()[0]
            # Nothing of the former state is worth an error: it is left either way.
            for close in (self._events.close, pynvml.nvmlShutdown):
                try:
                    close()
                except pynvml.NVMLError:
                    continue
        pynvml.nvmlInit()
        self._open = True

    def _list(self) -> None:
        found, unreadable = devices.find(self._skip, self._ask)
        self.at = None
        # A GPU that NVML lists but does not open has no UUID there: it is one of those that went.
        uuids = {device.uuid for device in found}
        gone = [device for device in self._devices if device.uuid not in uuids]
        lost = [device for device in gone if not device.is_slice][:unreadable]
        lost_uuids = {device.uuid for device in lost}
        lost += [device for device in gone if device.parent_uuid in lost_uuids]
        for device in lost:
            device.handle = None
        self._devices = found + lost
        self._trouble = self._trouble or unreadable > 0

    def _ask(self, index: int) -> None:
        self.at = (index,)

    def _lose_driver(self, error: Exception) -> None:
        self._trouble = True
        self._error = f"NVML: {error}"
        for device in self._devices:
            device.handle = None

    # -- One round -----------------------------------------------------------------------------

    def _begin(self) -> float:
        for device in self._devices:
            device.lost = device.handle is None and not self._error
            device.silent = device.handle is None
            self._trouble = self._trouble or device.handle is None
        return self._clock()

    def _end(self) -> None:
        """After trouble NVML is opened anew, the sooner the newer the trouble is."""
        self.at = None
        if not self._trouble and not self._error:
            self._soon_s = RESCAN_SOON_S
        elif self._scan_at_s > self._clock() + self._soon_s:
            self._scan_at_s = self._clock() + self._soon_s
            self._soon_s = min(2 * self._soon_s, self._rescan_s)
        self._trouble = False

    def _round(self, started_s: float, gpus: list[dict[str, Any]]) -> dict[str, Any]:
        warnings, self._warnings = self._warnings, []
        return {
            "taken_s": started_s,
            "gpus": gpus,
            "error": self._error,
            "warnings": warnings,
            "skipped": tuple(self._skip),
        }

    def _lost(self) -> set[str]:
        return {device.uuid for device in self._devices if device.lost}

    def _due(self, whole: list[Device]) -> list[Device]:
        """Whose turn it is: those read longest ago. One that was never read does not wait."""
        new = [device for device in whole if device.uuid not in self._turns]
        known = [d for d in whole if d.uuid in self._turns and not d.silent]
        known.sort(key=lambda device: self._turns[device.uuid].taken_s)
        return new + known[:TURN_GPUS]

    @staticmethod
    def _error_calls(device: Device, signals: Signals) -> tuple[Call, ...]:
        """Those of each link, where the sums over all links are not 0."""
        if not any(_number(signals[name]) for name in NVLINK_ERRORS):
            return ()
        return tuple(call for link in device.links for call in link.errors)

    def _turn(self, device: Device, now_s: float, fresh_s: float) -> Signals:
        """What was read last in its turn, as of now."""
        signals, taken_s = self._turns[device.uuid]
        by_s = now_s - taken_s
        fresh = not device.silent and by_s <= fresh_s
        return signals if by_s == 0 and fresh else _aged(signals, by_s, fresh)

    def _xids(self, now_s: float) -> tuple[list[tuple[str, int]], Raw]:
        xids, alive = self._events.drain() if self._open else ([], False)
        xids, self._heard = self._heard + xids, []
        heard = self._events.heard
        if alive and isinstance(heard, float):
            self._kept[""]["xids"] = (heard, now_s)
        elif not alive:
            heard = self._stale("", "xids", now_s) if isinstance(heard, float) else heard
            self._trouble = self._trouble or self._events.listening
        return xids, heard

    def _processes(self, device: Device, now_s: float) -> tuple[Raw, list[tuple[int, Raw]]]:
        listed: list[tuple[int, Raw]] = []

        def count(handle: Any) -> tuple[float]:
            for process in compute_processes(handle):
                used = process.usedGpuMemory
                listed.append((process.pid, UNSUPPORTED if used is None else float(used)))
            return (float(len(listed)),)

        (raw,) = self._signals(device, [Call(("compute_processes",), count)], now_s).values()
        if not isinstance(raw, tuple):
            device.processes = listed
            return raw, listed
        return raw, [(pid, _older(memory, raw[2], False)) for pid, memory in device.processes]

    def _signals(self, device: Device, calls: Iterable[Call], now_s: float) -> Signals:
        """All signals of some calls; a failure is that of one call."""
        signals: Signals = {}
        kept = self._kept[device.uuid]
        self.at = (device.index,)
        for call in calls:
            if device.handle is None:
                signals.update(self._last(device.uuid, call, now_s))
                continue
            try:
                values = call.read(device.handle)
            except pynvml.NVMLError as error:
                signals.update(self._failed(device, call, error.value, now_s))
                continue
            except ValueError as error:
                self._warnings.append(f"{device.uuid}: {error}")
                signals.update(self._last(device.uuid, call, now_s))
                continue
            for name, value in zip(call.names, values, strict=True):
                if value is None:
                    signals[name] = UNSUPPORTED
                else:
                    signals[name] = number = float(value)
                    kept[name] = (number, now_s)
        return signals

    def _failed(self, device: Device, call: Call, code: int, now_s: float) -> Signals:
        if code in UNSUPPORTING:
            return dict.fromkeys(call.names, UNSUPPORTED)
        if code in LOST or (device.is_slice and code in SLICE_GONE):
            device.lost = device.silent = self._trouble = True
        elif code in WITHOUT_DRIVER:
            device.silent = self._trouble = True
        return self._last(device.uuid, call, now_s)

    def _last(self, uuid: str, call: Call, now_s: float) -> Signals:
        return {name: self._stale(uuid, name, now_s) for name in call.names}

    def _stale(self, uuid: str, name: str, now_s: float) -> Raw:
        kept = self._kept[uuid].get(name)
        return ABSENT if kept is None else (False, kept[0], now_s - kept[1])


def _gpu(device: Device, lost: set[str], signals: Signals) -> dict[str, Any]:
    """A slice is lost with its GPU."""
    return {
        "index": device.index,
        "identity": (device.uuid, device.name, device.pci_bus_id, device.parent_uuid),
        "lost": device.uuid in lost or device.parent_uuid in lost,
        "signals": signals,
    }


def _links(device: Device, states: Signals, turn: Signals) -> tuple[Any, ...]:
    """Of each link its number, its other end, its state, and its errors if they were read."""
    both = zip(device.links, states.values(), strict=True)
    if len(turn) == len(_TURN_NAMES):
        return tuple((link.number, link.remote, state, ()) for link, state in both)
    # A link that came since its GPU's turn has none there.
    return tuple(
        (
            link.number,
            link.remote,
            state,
            tuple(turn[name] for call in link.errors for name in call.names if name in turn),
        )
        for link, state in both
    )


def _number(raw: Raw) -> float:
    """0 for what is not known."""
    if raw is ABSENT or raw is UNSUPPORTED:
        return 0.0
    return raw[1] if isinstance(raw, tuple) else float(raw)


def _aged(signals: Signals, by_s: float, fresh: bool) -> Signals:
    return {name: _older(raw, by_s, fresh) for name, raw in signals.items()}


def _older(raw: Raw, by_s: float, fresh: bool) -> Raw:
    if raw is ABSENT or raw is UNSUPPORTED:
        return raw
    measured, value, age_s = raw if isinstance(raw, tuple) else (True, float(raw), 0.0)
    return (measured and fresh, value, age_s + by_s)
