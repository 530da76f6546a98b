"""A machine whose pages a test writes: they can be slow, broken or gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from isocost.config import AgentNodeSettings

GPUS = 'DCGM_FI_DEV_FB_FREE{UUID="g"} 7\n'


def metrics(started: float | None = 1000.5, tokens: int = 10, running: int = 1) -> str:
    """A minimal page of an engine."""
    start = "" if started is None else f"process_start_time_seconds {started}\n"
    return f"{start}vllm:num_requests_running {running}\nvllm:generation_tokens_total {tokens}\n"


class PageServer:
    """``hold`` keeps answers back until it is set; ``asked`` counts requests."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.settings = AgentNodeSettings(
            name="n1",
            address="127.0.0.1:9",
            rack="r1",
            host="h1",
            metrics_url=f"http://127.0.0.1:{port}/metrics",
            dcgm_url=f"http://127.0.0.1:{port}/gpus",
            clock_url=f"http://127.0.0.1:{port}/clock",
        )
        self.metrics = metrics()
        self.gpus = GPUS
        self.clock = "{}"
        self.status = 200
        self.asked = 0
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/metrics":
            self.asked += 1
        await self.go_on.wait()
        page = {"/metrics": self.metrics, "/gpus": self.gpus, "/clock": self.clock}
        return web.Response(text=page[request.path], status=self.status)


@asynccontextmanager
async def page_server(port: int = 0) -> AsyncIterator[PageServer]:
    servers: list[PageServer] = []
    app = web.Application()

    async def answer(request: web.Request) -> web.Response:
        return await servers[0].answer(request)

    app.router.add_get("/{page}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    servers.append(PageServer(runner.addresses[0][1]))
    try:
        yield servers[0]
    finally:
        servers[0].go_on.set()
        await runner.cleanup()
