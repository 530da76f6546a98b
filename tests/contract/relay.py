"""A way to a server that swallows everything once it is told to, as a cut cable does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Relay:
    """``silent`` swallows what passes on the connections of now, both ways, once it is called."""

    port: int = 0
    _cut: set[asyncio.StreamWriter] = field(default_factory=set)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def silent(self) -> None:
        self._cut |= self._writers

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if writer not in self._cut:
                writer.write(data)
        if writer not in self._cut:
            writer.close()

    def join(self, *writers: asyncio.StreamWriter) -> None:
        self._writers |= set(writers)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@asynccontextmanager
async def relay_to(host: str, port: int) -> AsyncIterator[Relay]:
    """A relay on a free port of this machine."""
    relay = Relay()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, port)
        relay.join(writer, far_writer)
        pumps = relay.pump(reader, far_writer), relay.pump(far_reader, writer)
        # A side that hangs up while it is written to is a connection that ended.
        await asyncio.gather(*pumps, return_exceptions=True)

    server = await asyncio.start_server(join, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    yield relay
    relay.close()
    server.close()
