"""A client's connection in the test's own hands: kept, closed or cut when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from tests.integration.harness.gateway import COMPLETIONS
from tests.integration.harness.wait import DEADLINE_S


@dataclass(frozen=True, slots=True)
class Head:
    """An answer's status and its headers, names in lower case."""

    status: int
    headers: Mapping[str, str]


class Connection:
    """One HTTP/1.1 connection; as a context manager it is cut at the end."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).hostname
        self._port = urlsplit(url).port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> Self:
        async with asyncio.timeout(DEADLINE_S):
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()

    @property
    def address(self) -> str:
        """Its own end, as the access log names the client."""
        host, port = self._writer.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    def send(self, headers: Mapping[str, str] | None = None, body: bytes = b"{}") -> None:
        """Send a completion request."""
        lines = [f"POST {COMPLETIONS} HTTP/1.1", "host: test", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)

    def write(self, data: bytes) -> None:
        """Send these bytes, whatever they are."""
        self._writer.write(data)

    async def head(self) -> Head:
        """The next answer's head. ConnectionError if the connection ends instead."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("no answer") from error
        first, *lines = text.split("\r\n")[:-2]
        pairs = (line.partition(":") for line in lines)
        return Head(
            int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}
        )

    async def chunk(self) -> bytes:
        """The next chunk of a chunked answer, empty at its end. ConnectionError if it is cut."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                size = int(await self._reader.readuntil(b"\r\n"), 16)
                return (await self._reader.readexactly(size + 2))[:-2]
        except asyncio.IncompleteReadError as error:
            raise ConnectionResetError("cut in mid-stream") from error

    async def begin_stream(self) -> None:
        """Send a request and return when the first chunk of its answer is there."""
        self.send()
        assert (await self.head()).status == 200
        assert await self.chunk()

    async def ask(self, headers: Mapping[str, str] | None = None) -> int:
        """The status of one request whose answer is read whole."""
        self.send(headers)
        return await self.answer()

    async def answer(self) -> int:
        """The status of the next answer, which is read whole."""
        head = await self.head()
        if "content-length" in head.headers:
            await self._reader.readexactly(int(head.headers["content-length"]))
        else:
            while await self.chunk():
                pass
        return head.status

    def cut(self) -> None:
        """Go away without a word: the other side gets a reset."""
        self._writer.transport.abort()

    def close(self) -> None:
        """Go away as a client does that has lost interest."""
        self._writer.close()
