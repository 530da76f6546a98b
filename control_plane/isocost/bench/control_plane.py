"""What a run asks the control plane meanwhile: its nodes, and how regular its pushes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from isocost.bench.statistics import Percentiles

_ELIGIBLE = ("warming", "serving", "suspect")
_TIMEOUT = aiohttp.ClientTimeout(total=2.0)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node as the control plane sees it; None = it does not know. ``entropy`` may be infinite."""

    name: str
    state: str
    weight: float | None = None
    in_flight: int | None = None
    running: float | None = None
    waiting: float | None = None
    rack: str | None = None
    entropy: float | None = None
    kv_usage: float | None = None
    sample_age_s: float | None = None
    clock_offset_ms: float | None = None
    capacity: float | None = None

    @property
    def takes_traffic(self) -> bool:
        return self.state in _ELIGIBLE and bool(self.weight)


@dataclass(frozen=True, slots=True)
class FleetSample:
    """All nodes at one moment of the run, in seconds of the trace; None = no answer."""

    at_s: float
    nodes: tuple[NodeStatus, ...] | None


class ControlPlane:
    """The admin pages; a control plane that does not answer is unknown, never an error here."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url.rstrip("/")

    async def nodes(self) -> tuple[NodeStatus, ...] | None:
        answer = await self._get("/v1/nodes")
        try:
            return None if answer is None else tuple(map(_node, answer["nodes"]))
        except (TypeError, LookupError, ValueError):
            return None

    async def push_interval_ms(self) -> Percentiles:
        """Time between two tables, over the control plane's window; None before there are two."""
        answer = await self._get("/v1/status")
        try:
            interval = answer["push"]["interval_ms"]
            return Percentiles(p50=interval["p50"], p99=interval["p99"])
        except (TypeError, LookupError):
            return Percentiles()

    async def _get(self, path: str) -> Any:
        """The page's JSON; None where there is none."""
        try:
            async with self._session.get(self._url + path, timeout=_TIMEOUT) as response:
                return await response.json() if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return None


def _node(fields: Mapping[str, Any]) -> NodeStatus:
    entropy = fields.get("entropy")
    return NodeStatus(
        name=fields["name"],
        rack=fields.get("rack"),
        state=fields["state"],
        weight=fields["weight"],
        # JSON has no infinity: the page says "inf".
        entropy=None if entropy is None else float(entropy),
        in_flight=fields.get("in_flight"),
        running=fields.get("running"),
        waiting=fields.get("waiting"),
        kv_usage=fields.get("kv_usage"),
        sample_age_s=fields.get("sample_age_s"),
        clock_offset_ms=fields.get("clock_offset_ms"),
        capacity=fields.get("capacity"),
    )
