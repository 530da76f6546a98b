"""Which faults of a node hold when. Pure: time comes in as an argument."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from isocost.fake.faults import Fault, Order


@dataclass(slots=True, eq=False)
class Entry:
    """An ordered fault: it holds from ``start_s`` to before ``end_s``, which may be infinite."""

    fault: Fault
    start_s: float
    end_s: float
    #: Requests that it has answered, while it was the one of its kind that holds.
    answered: int = 0

    def active(self, now_s: float) -> bool:
        return self.start_s <= now_s < self.end_s


class FaultSchedule:
    """Faults hold together; of several of one kind the one that was ordered last."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def order(self, now_s: float, orders: Sequence[Order]) -> None:
        """Their times count from now."""
        self._entries = self.entries(now_s)
        for order in orders:
            start_s = now_s + order.after_s
            end_s = math.inf if order.for_s is None else start_s + order.for_s
            self._entries.append(Entry(order.fault, start_s, end_s))

    def end(self, entry: Entry) -> None:
        """It is over, though its time may not be."""
        self._entries.remove(entry)

    def clear(self) -> None:
        self._entries = []

    def entries(self, now_s: float) -> list[Entry]:
        """Those that hold or are still to come, in the order in which they were ordered."""
        return [entry for entry in self._entries if now_s < entry.end_s]

    def active(self, now_s: float) -> dict[type[Fault], Entry]:
        """What holds now, by kind."""
        return {type(entry.fault): entry for entry in self._entries if entry.active(now_s)}

    def next_change_s(self, now_s: float) -> float | None:
        """When the next one begins or ends."""
        times_s = (time_s for entry in self._entries for time_s in (entry.start_s, entry.end_s))
        return min((time_s for time_s in times_s if now_s < time_s < math.inf), default=None)
