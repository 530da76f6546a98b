"""An engine's stand-in that records what reaches it and answers as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from isocost.model import Node

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Received:
    method: str
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes


async def ok(_: web.Request) -> web.StreamResponse:
    return web.json_response({"object": "chat.completion"})


def status(code: int) -> Answer:
    """Answer with this status, as an engine does."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "told to"}}, status=code)

    return answer


async def reset(request: web.Request) -> web.StreamResponse:
    """Cut the connection before the first byte of an answer."""
    assert request.transport is not None
    request.transport.abort()
    raise asyncio.CancelledError


async def cut_stream(request: web.Request) -> web.StreamResponse:
    """Send one chunk of an answer, then cut the connection."""
    response = web.StreamResponse(headers=CIMultiDict({"content-type": "text/event-stream"}))
    await response.prepare(request)
    await response.write(b"data: first\n\n")
    assert request.transport is not None
    # Let the chunk leave before the cut.
    await asyncio.sleep(0)
    request.transport.close()
    raise asyncio.CancelledError


class Backend:
    """One node of the fleet: ``answer`` may be replaced at any time.

    ``traits`` are what else its node is, as fields of Node. Without ``reads_body`` it answers as
    soon as it has the headers.
    """

    def __init__(self, name: str, rack: str = "rack-1", answer: Answer = ok) -> None:
        self.name = name
        self.rack = rack
        self.answer = answer
        self.traits: dict[str, Any] = {}
        self.reads_body = True
        self.received: list[Received] = []
        self.address = ""
        self._runner = web.AppRunner(self._application(), shutdown_timeout=0.1)

    @property
    def node(self) -> Node:
        """This backend as the control plane's model has it."""
        host = f"{self.name}-host"
        node = Node(self.name, f"{self.name}@1", self.address, self.rack, host)
        return replace(node, **self.traits)

    async def start(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.address = f"{host}:{port}"
        return self

    async def stop(self) -> None:
        """Close the port: whoever connects now is refused."""
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._serve)
        return application

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read() if self.reads_body else b""
        self.received.append(Received(request.method, request.path, request.headers, body))
        return await self.answer(request)
