"""A control plane's two pages that a run reads, with what a test sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.unit.bench.listening import listening


class FakeControlPlane:
    """``rows`` are those of /v1/nodes."""

    def __init__(self) -> None:
        self.rows: list[object] = []
        self.push: dict[str, object] = {"interval_ms": None}
        self.status = 200
        self.url = ""

    async def nodes(self, _: web.Request) -> web.Response:
        return web.json_response({"nodes": self.rows}, status=self.status)

    async def status_page(self, _: web.Request) -> web.Response:
        return web.json_response({"push": self.push}, status=self.status)


def row(name: str, weight: float | None = 0.5, **fields: object) -> dict[str, object]:
    return {
        "name": name,
        "rack": "rack-a",
        "state": "serving",
        "weight": weight,
        "entropy": 1.5,
        "in_flight": 3,
        "running": 2.0,
        "waiting": None,
        **fields,
    }


@asynccontextmanager
async def fake_control_plane() -> AsyncIterator[FakeControlPlane]:
    fake = FakeControlPlane()
    app = web.Application()
    app.router.add_get("/v1/nodes", fake.nodes)
    app.router.add_get("/v1/status", fake.status_page)
    async with listening(app) as fake.url:
        yield fake
