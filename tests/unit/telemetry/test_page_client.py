"""Fetching a page from servers that are slow, cut it off, or keep no connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from isocost.telemetry.page_client import MAX_BYTES
from isocost.telemetry.scrape import Pages, Target

TIMEOUT_S = 0.5
OK = b"HTTP/1.1 200 OK\r\n"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[Target[str]]:
    """A scrape of a server that does this with each connection."""
    open_writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.append(writer)
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with Pages(TIMEOUT_S) as pages:
            yield Target(pages, f"http://127.0.0.1:{port}/metrics?all=1", str, time.monotonic)
    finally:
        server.close()
        for writer in open_writers:
            writer.close()
        await server.wait_closed()


async def head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


@pytest.mark.parametrize("first", [b"", OK, OK + b"Content-Length: 1000\r\n\r\n"])
async def test_a_page_that_drips_is_late_wherever_it_is(first: bytes) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(first)
        for number in range(1000):
            writer.write(b"X-%d: 1\r\n" % number if first == OK else b"H"[: number < 1])
            await writer.drain()
            await asyncio.sleep(0.05)

    async with served(drip) as target:
        began_s = time.monotonic()
        await target.start()
        assert target.error == "no answer in time"
        assert time.monotonic() - began_s < 10 * TIMEOUT_S


async def test_a_connection_that_the_server_closed_in_between_is_opened_again() -> None:
    connections = 0

    async def one_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        request = await head(reader)
        assert request.startswith(b"GET /metrics?all=1 HTTP/1.1\r\n")
        writer.write(OK + b"Content-Length: 2\r\n\r\nok")
        await writer.drain()

    async with served(one_answer) as target:
        for number in range(1, 4):
            await target.start()
            assert target.page == "ok" and target.good, target.error
            assert connections == number


async def test_a_connection_stays_between_pages() -> None:
    connections = 0

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await head(reader)
            writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")

    async with served(answers) as target:
        for _ in range(3):
            await target.start()
            assert target.page == "ok" and target.good, target.error
    assert connections == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (OK + b"Content-Length: 9\r\n\r\nok", "the page was cut off"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nok", "IncompleteRead"),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "HTTP status 302"),
        (b"SSH-2.0-OpenSSH_9\r\n", "SSH-2.0"),
        (b"", "closed connection"),
        (OK + b"\r\n" + b"x" * (MAX_BYTES + 1), "more than"),
    ],
)
async def test_what_is_no_page_is_told(answer: bytes, error: str) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head(reader)
        writer.write(answer)
        await writer.drain()

    async with served(once) as target:
        await target.start()
        assert not target.good and error in str(target.error)
        await target.start()
        assert not target.good


async def test_the_end_does_not_wait_for_a_page() -> None:
    async def never(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await head(reader)
        asked.set()
        await asyncio.sleep(60.0)

    asked = asyncio.Event()
    async with served(never) as target:
        scrape = target.start()
        await asked.wait()
        ended_s = time.monotonic()
    assert time.monotonic() - ended_s < TIMEOUT_S
    await asyncio.wait([scrape])
