"""A node that takes orders of faults, or does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class FaultNode:
    """``calls`` are what it was told, in order; ``status`` is what it answers orders with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.status = 200
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.calls.append((request.method, json.loads(text) if text else None))
        status = self.status if request.method == "POST" else 200
        return web.json_response({"error": {"message": "no such fault"}}, status=status)


@asynccontextmanager
async def fault_node() -> AsyncIterator[FaultNode]:
    node = FaultNode()
    app = web.Application()
    app.router.add_route("*", "/fake/faults", node.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    node.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield node
    finally:
        await runner.cleanup()
