"""What a machine's network devices move: bytes per second, sent and received."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState
from isocost.telemetry.flow import Flow, Rise, advance, begin
from isocost.telemetry.network_counters import (
    interface_rise,
    port_rise,
    read_net_dev,
    read_port_counter,
)
from isocost.telemetry.network_devices import Interface, NetworkDevices

#: Which devices there are changes with containers and drivers.
RESCAN_S = 3.0
#: A few readings missed make a rate stale; after ABSENT_S nothing of it is of now.
FRESH_S = 1.0
ABSENT_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Reading:
    """All that is known since ``taken_s``; the last that was known of what could not be read.

    ``interfaces`` None: they were never listed. ``uncounted`` are RDMA devices without counters.
    """

    taken_s: float
    interfaces: Mapping[str, Interface] | None = None
    infiniband: frozenset[str] | None = None
    uncounted: frozenset[str] = frozenset()
    flows: Mapping[str, Flow] = field(default_factory=dict)


class Network:
    """``read`` may run in a thread: ``rate`` uses what the last one that ended has left. A card
    that hangs keeps those who read its counters waiting.
    """

    def __init__(
        self,
        procfs: Path = Path("/proc"),
        sysfs: Path = Path("/sys"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._net_dev = procfs / "net/dev"
        self._devices = NetworkDevices(sysfs)
        self._clock = clock
        self._scanned_s: float | None = None
        self._last: _Reading | None = None
        self._told: dict[str, str] = {}
        self._missing: set[str] = set()

    def read(self) -> None:
        """One reading of all counters. Nothing that fails is raised: what is not read becomes
        stale, and the log says why when that changes.
        """
        taken_s = self._clock()
        last = self._last or _Reading(-float("inf"))
        if taken_s <= last.taken_s:
            return
        scanned = self._scan(taken_s)
        flows: dict[str, Flow] = {}
        interfaces = self._read_interfaces(taken_s, last, flows)
        uncounted = self._read_infiniband(taken_s, last, flows)
        self._last = _Reading(
            taken_s,
            interfaces if scanned else last.interfaces,
            frozenset(self._devices.infiniband) if scanned else last.infiniband,
            uncounted,
            flows,
        )

    def rate(self, devices: Sequence[str] = ()) -> Signal:
        """Bytes per second of the last 5 s, sent and received, by the devices named: interfaces or
        InfiniBand devices with all their ports; by all physical ones if none is.

        Unsupported: there are none. As good as the worst of several; one that came after the
        others counts from its second reading on.
        """
        last = self._last
        if last is None:
            return ABSENT
        if devices:
            self._tell_missing(devices, last)
            names = set(devices)
        elif last.interfaces is None or last.infiniband is None:
            return ABSENT
        else:
            physical = {name for name, found in last.interfaces.items() if found.physical}
            names = physical | (last.infiniband - last.uncounted)
        interfaces = last.interfaces or {}
        counted = [
            name
            for name in sorted(names)
            if name not in interfaces or not interfaces[name].above & names
        ]
        if not counted or not last.uncounted.isdisjoint(counted):
            return UNSUPPORTED
        flows = [last.flows.get(name) for name in counted]
        settled = [flow for flow in flows if flow is None or not flow.began(last.taken_s)]
        return self._sum(settled, last.taken_s)

    def _sum(self, flows: Sequence[Flow | None], taken_s: float) -> Signal:
        now_s = self._clock()
        state, total, age_s = SignalState.MEASURED, 0.0, 0.0
        for flow in flows:
            if flow is None or flow.rate is None or now_s - flow.rated_s > ABSENT_S:
                return ABSENT
            total += flow.rate
            age_s = max(age_s, now_s - flow.rated_s)
            if flow.rated_s < taken_s or age_s > FRESH_S:
                state = SignalState.STALE
        return Signal(state, total, age_s) if flows else ABSENT

    def _scan(self, now_s: float) -> bool:
        """Look for devices if it is time; False: it was never known which there are."""
        if self._scanned_s is None or now_s - self._scanned_s >= RESCAN_S:
            try:
                self._devices.rescan()
            except OSError as error:
                self._tell("network devices", str(error))
            else:
                self._scanned_s = now_s
                self._tell("network devices", "")
        return self._scanned_s is not None

    def _read_interfaces(
        self, taken_s: float, last: _Reading, flows: dict[str, Flow]
    ) -> Mapping[str, Interface] | None:
        try:
            listed = read_net_dev(os.fsdecode(self._net_dev.read_bytes()))
        except (OSError, TelemetryError) as error:
            self._tell(str(self._net_dev), str(error))
            flows |= {
                name: last.flows[name] for name in last.interfaces or () if name in last.flows
            }
            return last.interfaces
        self._tell(str(self._net_dev), "")
        for name, counters in listed.items():
            _follow(flows, last, name, counters, taken_s, interface_rise)
        return self._devices.interfaces(listed)

    def _read_infiniband(
        self, taken_s: float, last: _Reading, flows: dict[str, Flow]
    ) -> frozenset[str]:
        """Those that do not count."""
        uncounted = set()
        for name, device in self._devices.infiniband.items():
            counters = None
            try:
                counters = _read_counters(device.counters)
            except (OSError, TelemetryError) as error:
                self._tell(name, str(error))
            else:
                self._tell(name, "")
            if counters == () and name not in last.flows:
                uncounted.add(name)
            else:
                _follow(flows, last, name, counters or None, taken_s, port_rise)
        return frozenset(uncounted)

    def _tell(self, what: str, error: str) -> None:
        """Log what cannot be read when that begins or changes, and that it is over."""
        if error == self._told.get(what, ""):
            return
        self._told[what] = error
        if error:
            log.warning("no counters of %s: %s", what, error)
        else:
            log.info("%s: counters are read again", what)

    def _tell_missing(self, devices: Sequence[str], last: _Reading) -> None:
        if last.interfaces is None or last.infiniband is None:
            return
        there = {*last.interfaces, *last.infiniband}
        for name in devices:
            if name not in there and name not in self._missing:
                log.warning("there is no network device %s", name)
                self._missing.add(name)
            elif name in there and name in self._missing:
                log.info("network device %s is there now", name)
                self._missing.remove(name)


def _follow(
    flows: dict[str, Flow],
    last: _Reading,
    name: str,
    counters: tuple[int, ...] | None,
    taken_s: float,
    rise: Rise,
) -> None:
    """A device's flow with what was read of it; None: nothing."""
    before = last.flows.get(name)
    if before is None:
        if counters is not None:
            flows[name] = begin(counters, taken_s)
    else:
        flows[name] = before if counters is None else advance(before, counters, taken_s, rise)


def _read_counters(paths: Sequence[Path]) -> tuple[int, ...]:
    """Of the ports that count."""
    counters = []
    for path in paths:
        try:
            count = read_port_counter(path.read_bytes().decode("ascii", "replace"))
        except FileNotFoundError:
            continue
        if count is not None:
            counters.append(count)
    return tuple(counters)
