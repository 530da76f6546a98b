"""A node that takes orders of faults, or does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.unit.bench.listening import listening


class FaultNode:
    """``calls`` are what it was told, in order; ``status`` is what it answers orders with.

    ``away``: so many calls to take a fault back find nobody, each time it has one.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.status = 200
        self.away = 0
        self._away_now = 0
        #: Called at every order.
        self.told: Callable[[], object] = lambda: None
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        text = await request.text()
        # A rehearsal's faults are hours off.
        if text and json.loads(text)[0]["after_s"] < 3600:
            self._away_now = self.away
        elif self._away_now:
            self._away_now -= 1
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if text:
            self.told()
        self.calls.append((request.method, json.loads(text) if text else None))
        status = self.status if request.method == "POST" else 200
        return web.json_response({"error": {"message": "no such fault"}}, status=status)


@asynccontextmanager
async def fault_node() -> AsyncIterator[FaultNode]:
    node = FaultNode()
    app = web.Application()
    app.router.add_route("*", "/fake/faults", node.handle)
    async with listening(app) as node.url:
        yield node
