"""A fake node in this process, and a client that talks to it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from isocost.fake.hardware import Hardware
from isocost.fake.models import model_named
from isocost.fake.server import start
from isocost.fake.settings import FakeNodeSettings

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
        """The sum over its labels; None if the page does not have it."""
        _, page = await self.get("/metrics")
        samples = [line.rsplit(maxsplit=1) for line in page.splitlines()]
        values = [float(value) for label, value in samples if label.split("{")[0] == name]
        return sum(values) if values else None

    async def order(self, fault: str, **more: object) -> None:
        """Order one fault."""
        status, answer = await self.post("/fake/faults", {"fault": fault, **more})
        assert status == 200, answer

    async def faults(self) -> list[dict[str, Any]]:
        """The active and the coming faults."""
        _, page = await self.get("/fake/faults")
        return list(json.loads(page)["faults"])

    async def clear(self) -> None:
        async with self.session.delete(self.url + "/fake/faults") as response:
            assert response.status == 200


def settings(**more: Any) -> FakeNodeSettings:
    plain = FakeNodeSettings(
        name="n1",
        host="127.0.0.1",
        port=0,
        hardware=Hardware("H100", 1, model_named(MODEL)),
        served_model_name=MODEL,
    )
    return dataclasses.replace(plain, **more)


@asynccontextmanager
async def running(**more: Any) -> AsyncIterator[NodeClient]:
    """A node with these settings changed."""
    server = await start(settings(**more))
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=DEADLINE_S),
        ) as session:
            yield NodeClient(session, server.port)
    finally:
        await server.stop()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition; it fails the test after the deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while not await condition():
        assert time.monotonic() < end_s, "the condition did not come true"
        await asyncio.sleep(0.01)
