"""What a run asks the control plane meanwhile: its nodes, and how regular its pushes are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import aiohttp

from isocost.bench.statistics import Percentiles
from isocost.errors import StartError

_ELIGIBLE = ("warming", "serving", "suspect")
_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
#: Keeps every sum finite.
_LARGEST = 1e15
_NODES = "/v1/nodes"


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

    async def require(self) -> None:
        """StartError unless it answers as a control plane does."""
        try:
            async with self._session.get(self._url + _NODES, timeout=_TIMEOUT) as response:
                status = response.status
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StartError(f"--control-plane {self._url} does not answer: {error}") from error
        if status != 200 or await self.nodes() is None:
            raise StartError(
                f"--control-plane {self._url} is no control plane's HTTP address: {_NODES} "
                f"answers HTTP {status}" + (" without nodes" if status == 200 else "")
            )

    async def nodes(self) -> tuple[NodeStatus, ...] | None:
        answer = await self._get(_NODES)
        try:
            return tuple(map(_node, answer["nodes"]))
        except (TypeError, LookupError):
            return None

    async def push_interval_ms(self) -> Percentiles:
        """Time between two tables, over the control plane's window; None before there are two."""
        answer = await self._get("/v1/status")
        try:
            interval = answer["push"]["interval_ms"]
            return Percentiles(p50=_number(interval["p50"]), p99=_number(interval["p99"]))
        except (TypeError, LookupError):
            return Percentiles()

    async def _get(self, path: str) -> Any:
        """The page's JSON; None where there is none."""
        try:
            async with self._session.get(self._url + path, timeout=_TIMEOUT) as response:
                return await response.json() if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError):
            return None


def _node(fields: Any) -> NodeStatus:
    """TypeError, LookupError: this is no row of a node."""
    name, state, rack = fields["name"], fields["state"], fields.get("rack")
    if not isinstance(name, str) or not isinstance(state, str):
        raise TypeError("a node without name or state")
    return NodeStatus(
        name=name,
        rack=rack if isinstance(rack, str) else None,
        state=state,
        weight=_number(fields["weight"]),
        # JSON has no infinity: the page says "inf".
        entropy=math.inf if fields.get("entropy") == "inf" else _number(fields.get("entropy")),
        in_flight=_number(fields.get("in_flight")),
        running=_number(fields.get("running")),
        waiting=_number(fields.get("waiting")),
        kv_usage=_number(fields.get("kv_usage")),
        sample_age_s=_number(fields.get("sample_age_s")),
        clock_offset_ms=_number(fields.get("clock_offset_ms")),
        capacity=_number(fields.get("capacity")),
    )


def _number(value: Any) -> Any:
    """A finite number as it is; anything else is not known."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -_LARGEST <= value <= _LARGEST else None
