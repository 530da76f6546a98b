"""What is seen of the fleet while requests are sent: the control plane's word and Envoy's log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container

from isocost.bench.access_log import AccessLog, LoggedRequest
from isocost.bench.control_plane import ControlPlane, FleetSample, NodeStatus

SAMPLE_S = 1.0
_POLL_S = 0.1
#: Envoys write their log at once or after some tenths of a second.
_FLUSH_DEADLINE_S = 3.0


class Observer:
    """Samples the control plane and follows the access log; either may be missing."""

    def __init__(self, access_log: AccessLog | None, control_plane: ControlPlane | None) -> None:
        self._access_log = access_log
        self._control_plane = control_plane
        self.log: list[LoggedRequest] = []
        self.samples: list[FleetSample] = []
        #: The nodes as of the last sample.
        self.latest: dict[str, NodeStatus] = {}

    def read_log(self) -> list[LoggedRequest]:
        """Take what Envoy has logged since the last call."""
        new = [] if self._access_log is None else self._access_log.read_new()
        self.log += new
        return new

    async def read_log_until(self, expected: int, ids: Container[str | None] | None = None) -> None:
        """Read on until that many requests are logged, or Envoy has had time enough to flush.

        With ``ids`` only requests of these ids count: others use the gateway too.
        """
        deadline_s = time.monotonic() + _FLUSH_DEADLINE_S
        while self._access_log is not None:
            self.read_log()
            logged = sum(ids is None or entry.request_id in ids for entry in self.log)
            if logged >= expected or time.monotonic() >= deadline_s:
                return
            await asyncio.sleep(_POLL_S)

    async def sample(self, at_s: float) -> None:
        """Ask for the nodes once; ``at_s`` is the trace's time."""
        if self._control_plane is None:
            return
        nodes = await self._control_plane.nodes()
        self.latest = {node.name: node for node in nodes or ()}
        self.samples.append(FleetSample(at_s, nodes))

    async def sample_each_second(self, now_s: Callable[[], float]) -> None:
        """Sample at once, then in the middle of each further second, until cancelled; ``now_s``
        gives the trace's time.

        At a second's edge a sample that comes a millisecond early would stand in the step before,
        and leave its own step of the series without one.
        """
        due_s = now_s()
        while self._control_plane is not None:
            await asyncio.sleep(max(due_s - now_s(), 0.0))
            await self.sample(now_s())
            # A late answer costs its own samples, and moves no other.
            due_s = max(_middle_s(due_s) + SAMPLE_S, _middle_s(now_s()))


def _middle_s(at_s: float) -> float:
    """The middle of the second that ``at_s`` is in."""
    return (at_s // SAMPLE_S + 0.5) * SAMPLE_S
