"""How many of an Envoy's workers serve, as its feed says: an average over them would hide one."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.observe.inflight import VM_GONE_S


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """VMs that have served a request: those alive now, and the most at once since the feed began.

    A VM that failed is missing until its worker's next request loads it again.
    """

    live: int
    expected: int

    @property
    def missing(self) -> int:
        return self.expected - self.live


class Workers:
    """The last word of each Envoy that speaks."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, WorkerCount]] = {}

    def apply(self, envoy: str, count: WorkerCount, now_s: float) -> None:
        self._last[envoy] = now_s, count

    def expire(self, now_s: float) -> None:
        """Drop the Envoys that were silent longer than ``VM_GONE_S``."""
        gone = [envoy for envoy, (at_s, _) in self._last.items() if now_s - at_s > VM_GONE_S]
        for envoy in gone:
            del self._last[envoy]

    def counts(self) -> dict[str, WorkerCount]:
        return {envoy: count for envoy, (_, count) in self._last.items()}
