"""A fake node in this process, and a client that talks to it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from isocost.fake.cards import Hardware
from isocost.fake.server import FakeNodeSettings, start

MODEL = "llama-3.1-8b"
DEADLINE_S = 10.0


class NodeClient:
    """Requests to one node."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session = session
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.url + path) as response:
            return response.status, await response.text()

    async def post(self, path: str, body: object) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(self.url + path, data=data) as response:
            return response.status, json.loads(await response.text())

    async def events(self, path: str, body: dict[str, object]) -> list[str]:
        """The data of every event of a streamed answer."""
        async with self.session.post(self.url + path, json={**body, "stream": True}) as response:
            assert response.status == 200
            assert response.content_type == "text/event-stream"
            text = await response.text()
        assert text.endswith("\n\n")
        events = text.removesuffix("\n\n").split("\n\n")
        assert all(event.startswith("data: ") for event in events)
        return [event.removeprefix("data: ") for event in events]

    async def metric(self, name: str) -> float | None:
        _, page = await self.get("/metrics")
        values = [line.split()[-1] for line in page.splitlines() if line.startswith(name + "{")]
        return float(values[0]) if values else None


def settings(port: int = 0, stream_chunks: int | None = 8) -> FakeNodeSettings:
    return FakeNodeSettings(
        name="n1",
        host="127.0.0.1",
        port=port,
        model=MODEL,
        hardware=Hardware("H100", 1),
        stream_chunks=stream_chunks,
    )


@asynccontextmanager
async def running(stream_chunks: int | None = 8, port: int = 0) -> AsyncIterator[NodeClient]:
    runner = await start(settings(port, stream_chunks))
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=DEADLINE_S),
        ) as session:
            yield NodeClient(session, runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition; it fails the test after the deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while not await condition():
        assert time.monotonic() < end_s, "the condition did not come true"
        await asyncio.sleep(0.01)
