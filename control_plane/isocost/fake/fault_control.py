"""Runs a node's fault schedule in real time: one timer at its next change."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from isocost.fake.fault_schedule import Entry, FaultSchedule
from isocost.fake.faults import Fault, Order, Status, parameters

Kind = TypeVar("Kind", bound=Fault)


class FaultControl:
    """Must be made inside a running event loop. ``changed`` is called whenever the set of active
    faults may have changed.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = changed
        self._schedule = FaultSchedule()
        self._active: dict[type[Fault], Entry] = {}
        self._timer: asyncio.TimerHandle | None = None

    def order(self, orders: Sequence[Order]) -> None:
        self._schedule.order(self._loop.time(), orders)
        self._update()

    def clear(self) -> None:
        self._schedule.clear()
        self._update()

    def active(self, kind: type[Kind]) -> Kind | None:
        entry = self._active.get(kind)
        return None if entry is None else entry.fault  # type: ignore[return-value]

    def take_status(self) -> int | None:
        """The status that the completion which came now must be answered with."""
        entry = self._active.get(Status)
        if entry is None or not isinstance(entry.fault, Status):
            return None
        entry.answered += 1
        if entry.answered == entry.fault.requests:
            self._schedule.end(entry)
            self._update()
        return entry.fault.status

    def page(self) -> bytes:
        """The active and the coming faults; ``ends_in_s`` null: until it is cleared."""
        now_s = self._loop.time()
        faults = [
            {
                "fault": entry.fault.name,
                **parameters(entry.fault),
                "active": entry.active(now_s),
                "starts_in_s": round(max(entry.start_s - now_s, 0.0), 3),
                "ends_in_s": None if math.isinf(entry.end_s) else round(entry.end_s - now_s, 3),
            }
            for entry in self._schedule.entries(now_s)
        ]
        return json.dumps({"faults": faults}).encode()

    def stop(self) -> None:
        """No more changes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _update(self) -> None:
        self.stop()
        now_s = self._loop.time()
        self._active = self._schedule.active(now_s)
        next_s = self._schedule.next_change_s(now_s)
        if next_s is not None:
            self._timer = self._loop.call_at(next_s, self._update)
        self._changed()
