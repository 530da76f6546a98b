"""Rosters and tables for the filter, published as the control plane does on its ticks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from isocost.model import NodeState
from isocost.push.fleet import TableWork, encode_roster, encode_table
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import ROSTER, TABLE
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import Backend

_TICK_S = 0.2
_FLEET = "fleet"
#: What the filter takes where a table does not say.
_TOKEN_S = 1 / 15_000
_REQUEST_S = 0.0005


@dataclass(slots=True)
class Row:
    """One node's numbers; a test changes them at any time, the next table has them."""

    backend: Backend
    weight: float = 1.0
    entropy: float = 0.0
    state: NodeState = NodeState.SERVING
    pending_tokens: int = 0
    #: 0 = not known.
    kv_capacity_tokens: float = 0.0


@dataclass(slots=True)
class FleetFeed:
    """A context manager: inside it a new table is published every 200 ms."""

    ads: AdsServer
    rows: Sequence[Row]
    version: int = field(default_factory=lambda: int(time.time() * 1000))
    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FleetFeed:
        self.publish()
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def publish(self) -> int:
        """Publish the rows as they are now; the table's version."""
        self.version += 1
        roster_version, roster = encode_roster([row.backend.node for row in self.rows])
        table = encode_table(
            self.version,
            roster_version,
            int(time.time() * 1000),
            np.array([row.weight for row in self.rows]),
            np.array([row.entropy for row in self.rows]),
            [row.state for row in self.rows],
            self._work(),
        )
        self.ads.cache.publish(
            TypeResources.hashed(ROSTER, {_FLEET: _any(ROSTER, roster)}),
            TypeResources.hashed(TABLE, {_FLEET: _any(TABLE, table)}),
        )
        return self.version

    def _work(self) -> TableWork:
        count = len(self.rows)
        nothing = np.zeros(count, dtype=np.int64)
        return TableWork(
            capacity=np.array([row.weight for row in self.rows]),
            pending_tokens=np.array([row.pending_tokens for row in self.rows]),
            open=nothing,
            kv_tokens=nothing,
            token_s=np.full(count, _TOKEN_S),
            request_s=np.full(count, _REQUEST_S),
            extra_s=np.zeros(count),
            kv_capacity_tokens=np.array([row.kv_capacity_tokens for row in self.rows]),
        )

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.publish()


def _any(type_url: str, value: bytes) -> bytes:
    from google.protobuf.any_pb2 import Any

    return Any(type_url=type_url, value=value).SerializeToString()
