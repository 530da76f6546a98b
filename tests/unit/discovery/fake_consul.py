"""A Consul whose answers a test orders: for what a real one does only when it is in trouble."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def instance(
    name: str,
    *,
    address: str = "192.0.2.1",
    port: int = 8000,
    machine: str = "m1",
    machine_address: str = "192.0.2.100",
    meta: Mapping[str, str] | None = None,
    checks: tuple[dict[str, str], ...] = (),
) -> dict[str, Any]:
    """An entry of the health endpoint: what ours are read of, and some of what else is there."""
    return {
        "Node": {"ID": "9f3cd183", "Node": machine, "Address": machine_address, "Meta": {}},
        "Service": {
            "ID": f"isocost:a1:{name}",
            "Service": "isocost-node",
            "Tags": [],
            "Address": address,
            "Port": port,
            "Meta": {"node": name, "rack": "r1", "host": "h1", **(meta or {})},
        },
        "Checks": list(checks),
    }


def check(check_id: str, status: str, output: str = "") -> dict[str, str]:
    return {"Node": "m1", "CheckID": check_id, "Name": "", "Status": status, "Output": output}


def listing(
    *entries: dict[str, Any], index: int | str | None = 1, filtered: bool = False
) -> Answer:
    """An answer of the health endpoint; ``index`` None: without the header. ``filtered``: there are
    more, which the token may not read.
    """

    async def answer(_: web.Request) -> web.Response:
        headers = {} if index is None else {"X-Consul-Index": str(index)}
        if filtered:
            headers["X-Consul-Results-Filtered-By-ACLs"] = "true"
        return web.json_response(list(entries), headers=headers)

    return answer


def text(body: str, status: int) -> Answer:
    """Without any header of Consul's."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, status=status)

    return answer


async def never(_: web.Request) -> web.Response:
    """Takes the question and does not answer."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def drop(request: web.Request) -> web.Response:
    """Closes the connection instead of an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def late(answer: Answer, delay_s: float) -> Answer:
    async def wait(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(delay_s)
        return await answer(request)

    return wait


class FakeConsul:
    """Gives the answers that ``then`` is told one after the other, and holds a question for which
    there is none yet, as Consul does. ``asked`` are the questions.
    """

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.answers: list[Answer] = []
        self.asked: list[web.Request] = []
        self.asked_s: list[float] = []
        self.bodies: list[bytes] = []
        self.connections: set[object] = set()
        self._more = asyncio.Event()

    @property
    def indexes(self) -> list[str | None]:
        """What each question waited on."""
        return [request.query.get("index") for request in self.asked]

    def then(self, *answers: Answer) -> None:
        self.answers += answers
        self._more.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        self.asked_s.append(time.monotonic())
        self.bodies.append(await request.read())
        self.connections.add(request.transport)
        while not self.answers:
            self._more.clear()
            await self._more.wait()
        return await self.answers.pop(0)(request)


@asynccontextmanager
async def fake_consul(port: int = 0) -> AsyncIterator[FakeConsul]:
    servers: list[FakeConsul] = []
    app = web.Application()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await servers[0].answer(request)

    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    servers.append(FakeConsul(runner.addresses[0][1]))
    try:
        yield servers[0]
    finally:
        await runner.cleanup()
