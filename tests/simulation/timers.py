"""What happens at known times between the calls of a simulation."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[float], None]


class Timers:
    """Actions get their time; equal times in the order of their entering."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Action]] = []
        self._entered = 0

    def at(self, at_s: float, action: Action) -> None:
        self._entered += 1
        heapq.heappush(self._entries, (at_s, self._entered, action))

    def every(self, period_s: float, first_s: float, action: Action) -> None:
        def repeat(now_s: float) -> None:
            action(now_s)
            self.at(now_s + period_s, repeat)

        self.at(first_s, repeat)

    def run_until(self, now_s: float) -> None:
        while self._entries and self._entries[0][0] <= now_s:
            at_s, _, action = heapq.heappop(self._entries)
            action(at_s)
