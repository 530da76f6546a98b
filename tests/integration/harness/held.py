"""Answers that wait until the test lets them go on."""

from __future__ import annotations

import asyncio

from aiohttp import web
from multidict import CIMultiDict

from tests.integration.harness.backend import Answer

FIRST_CHUNK = b"data: first\n\n"
LAST_CHUNK = b"data: [DONE]\n\n"


class Gate:
    """``waiting`` counts who waits now; ``release`` lets all go on, also those that come later."""

    def __init__(self) -> None:
        self.waiting = 0
        self._open = asyncio.Event()

    def release(self) -> None:
        self._open.set()

    async def wait(self) -> None:
        self.waiting += 1
        try:
            await self._open.wait()
        finally:
            self.waiting -= 1


def held_answer(gate: Gate) -> Answer:
    """Not a byte before the gate opens, then the whole answer."""

    async def answer(_: web.Request) -> web.StreamResponse:
        await gate.wait()
        return web.json_response({"object": "chat.completion"})

    return answer


def held_stream(ends: Gate, begins: Gate | None = None) -> Answer:
    """A stream: head and first chunk at one gate's opening (None = at once), the last chunk at
    the other's.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        if begins is not None:
            await begins.wait()
        response = web.StreamResponse(headers=CIMultiDict({"content-type": "text/event-stream"}))
        await response.prepare(request)
        await response.write(FIRST_CHUNK)
        await ends.wait()
        await response.write(LAST_CHUNK)
        return response

    return answer
