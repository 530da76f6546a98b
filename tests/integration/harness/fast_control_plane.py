"""A control plane whose ticks follow each other at once: hours of pushes in a minute.

A program of its own, so that its memory is the daemon's. It is the real one but for its pace: the
next table is built when every client has taken the one before. Its nodes need no agent.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio
import yaml

from isocost.config import ControlPlaneConfig
from isocost.config_file import parse
from isocost.daemon import ControlPlane
from isocost.model import Node
from isocost.push.ads import AdsService, Exchange
from isocost.push.cache import Cache
from isocost.push.type_urls import TABLE
from tests.integration.harness.announcer import healthy_sample
from tests.unit.sample_blocks import agent_report

#: The number of pushes is printed this often.
PROGRESS = 500
_START_PACE_S = 0.05


def command(config: Path) -> list[str]:
    """Its command line; the file has the daemon's settings under ``settings``, ``nodes``, and
    ``spare_addresses`` if at every push one node is to start anew, on another machine.
    """
    return [sys.executable, "-m", __name__, str(config)]


class _Hearing:
    """A stream's context; who asks for the next message has dealt with the one before."""

    def __init__(self, context: grpc.aio.ServicerContext, heard: asyncio.Event) -> None:
        self._context = context
        self._heard = heard

    async def read(self) -> Any:
        self._heard.set()
        return await self._context.read()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class _Ads(AdsService):
    """Sets ``heard`` when it has dealt with a client's message."""

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self.heard = asyncio.Event()

    async def _exchange(self, exchange: Exchange) -> None:
        context = _Hearing(exchange.context, self.heard)
        await super()._exchange(replace(exchange, context=context))


class FastControlPlane(ControlPlane):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(parse(ControlPlaneConfig, config["settings"], "the test"))
        self._ads = self._hearing = _Ads(self._cache)
        self._fleet = [Node(**node) for node in config["nodes"]]
        self._spare_addresses = deque(config.get("spare_addresses", ()))
        self._reports = 0

    async def _tick_forever(self) -> None:
        pushes = 0
        # The first roster is held until no agent has come for a while.
        while not self._pipeline.table_version:
            self._push()
            await asyncio.sleep(_START_PACE_S)
        while True:
            await self._hearing.heard.wait()
            self._hearing.heard.clear()
            if not self._taken():
                continue
            pushes += 1
            if pushes % PROGRESS == 0:
                print(pushes, flush=True)
            if self._spare_addresses:
                self._restart(pushes)
            self._push()

    def _restart(self, number: int) -> None:
        place = number % len(self._fleet)
        node = self._fleet[place]
        self._spare_addresses.append(node.address)
        self._fleet[place] = replace(
            node,
            instance_id=f"{node.name}@{number + 2}",
            address=self._spare_addresses.popleft(),
        )

    def _push(self) -> None:
        self._reports += 1
        now_s = time.monotonic()
        samples = tuple(map(healthy_sample, self._fleet))
        self._registry.receive(
            agent_report("fast", self._reports, time.time(), now_s, samples), now_s
        )
        self._tick(now_s, int(time.time() * 1e3))

    def _taken(self) -> bool:
        """Is there a client that wants tables, and has every such client the newest?"""
        tables = [client.types[TABLE] for client in self._ads.clients() if TABLE in client.types]
        version = str(self._pipeline.table_version)
        return bool(tables) and all(table.acked_version == version for table in tables)


if __name__ == "__main__":
    asyncio.run(
        FastControlPlane(yaml.safe_load(Path(sys.argv[1]).read_text())).run(asyncio.Event())
    )
