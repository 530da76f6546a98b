"""What the demo asks the control plane while it runs: its nodes, and how regular its pushes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from isocost.bench.report import Percentiles

_ELIGIBLE = ("warming", "serving", "suspect")
_TIMEOUT = aiohttp.ClientTimeout(total=2.0)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node as the control plane sees it; None = it does not know."""

    name: str
    state: str
    weight: float | None
    in_flight: int | None
    running: float | None
    waiting: float | None

    @property
    def takes_traffic(self) -> bool:
        return self.state in _ELIGIBLE and bool(self.weight)


class ControlPlane:
    """The admin pages; a control plane that does not answer is unknown, never an error here."""

    def __init__(self, session: aiohttp.ClientSession, http_port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{http_port}"

    async def nodes(self) -> list[NodeStatus] | None:
        answer = await self._get("/v1/nodes")
        return None if answer is None else [_node(node) for node in answer["nodes"]]

    async def push_interval_ms(self) -> Percentiles:
        """Time between two tables, over the control plane's window; None before there are two."""
        answer = await self._get("/v1/status")
        interval = None if answer is None else answer["push"]["interval_ms"]
        if interval is None:
            return Percentiles()
        return Percentiles(p50=interval["p50"], p99=interval["p99"])

    async def _get(self, path: str) -> Any | None:
        try:
            async with self._session.get(self._url + path, timeout=_TIMEOUT) as response:
                return await response.json() if response.status == 200 else None
        except (aiohttp.ClientError, TimeoutError):
            return None


def _node(fields: Mapping[str, Any]) -> NodeStatus:
    return NodeStatus(
        name=fields["name"],
        state=fields["state"],
        weight=fields["weight"],
        in_flight=fields["in_flight"],
        running=fields["running"],
        waiting=fields["waiting"],
    )
