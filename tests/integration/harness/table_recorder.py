"""Subscribes to the tables as an Envoy does, and keeps each with its time of arrival."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import grpc.aio
from envoy_data_plane.envoy.config.core.v3 import Node
from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryRequest, DiscoveryResponse

from isocost.model import NodeState
from isocost.push.ads import SERVICE
from isocost.push.fleet import RESOURCE
from isocost.push.type_urls import ROSTER, TABLE
from isocost.push.variant import WHOLE
from isocost.v1.roster_pb2 import Roster
from isocost.v1.table_pb2 import Table

_PAUSE_S = 0.02


@dataclass(frozen=True)
class Recorded:
    """One table: wall time of its arrival; shares of weight and of capacity, entropy, state and
    open requests by node name; how many filters' reports are in it.
    """

    arrived_unix_s: float
    share: dict[str, float]
    capacity_share: dict[str, float]
    entropy: dict[str, float]
    state: dict[str, NodeState]
    open: dict[str, int]
    vms: int


class TableRecorder:
    """A context manager; ``tables`` maps versions to what arrived, ``rosters`` has the nodes' names
    of every roster. A stream that is lost is opened again at once.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._task: asyncio.Task[None] | None = None
        self._names: list[str] = []
        self._roster_version = 0
        self.tables: dict[int, Recorded] = {}
        self.rosters: list[list[str]] = []

    async def __aenter__(self) -> TableRecorder:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def first_where(
        self, condition: Callable[[Recorded], bool], since_unix_s: float
    ) -> tuple[int, Recorded] | None:
        """Version and content of the first table that arrived since then and is so."""
        for version in sorted(self.tables):
            table = self.tables[version]
            if table.arrived_unix_s >= since_unix_s and condition(table):
                return version, table
        return None

    def newest_with(self, vms: int) -> int | None:
        """The newest table's version, if so many filters' reports are in it."""
        version = max(self.tables, default=None)
        return version if version and self.tables[version].vms == vms else None

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await self._stream()
            await asyncio.sleep(_PAUSE_S)

    async def _stream(self) -> None:
        # Its own subchannel: gRPC's shared one would wait longer and longer between attempts.
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port}", options) as channel:
            call = channel.stream_stream(f"/{SERVICE}/{WHOLE.method}")()
            for type_url in (ROSTER, TABLE):
                await call.write(_request(type_url))
            async for raw in call:
                response = DiscoveryResponse.parse(raw)
                self._keep(response.type_url, response.resources[0].value)
                await call.write(_request(response.type_url, response.version_info, response.nonce))

    def _keep(self, type_url: str, content: bytes) -> None:
        if type_url == ROSTER:
            roster = Roster.FromString(content)
            self._names = [node.name for node in roster.nodes]
            self.rosters.append(self._names)
            self._roster_version = roster.version
            return
        table = Table.FromString(content)
        assert table.roster_version == self._roster_version
        self.tables[table.version] = Recorded(
            time.time(),
            self._shares(table.weight),
            self._shares(table.capacity),
            dict(zip(self._names, table.entropy, strict=True)),
            dict(zip(self._names, map(NodeState, table.state), strict=True)),
            dict(zip(self._names, table.open, strict=True)),
            len(table.seen),
        )

    def _shares(self, parts: Collection[float]) -> dict[str, float]:
        whole = sum(parts) or 1.0
        return {name: part / whole for name, part in zip(self._names, parts, strict=True)}


def _request(type_url: str, version: str = "", nonce: str = "") -> bytes:
    return bytes(
        DiscoveryRequest(
            version_info=version,
            node=Node(id="recorder"),
            resource_names=[RESOURCE],
            type_url=type_url,
            response_nonce=nonce,
        )
    )
