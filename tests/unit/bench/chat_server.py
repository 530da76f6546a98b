"""A chat server in the test's own loop that behaves and misbehaves on request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from tests.unit.bench.listening import listening

PATH = "/v1/chat/completions"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":11}}\n\n'
DONE = b"data: [DONE]\n\n"


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post(PATH, handler)
    async with listening(app) as url:
        yield url + PATH


def streaming(*pieces: bytes | float) -> Handler:
    """A handler that writes the bytes and waits the seconds it is given."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            else:
                await response.write(piece)
        return response

    return handle
