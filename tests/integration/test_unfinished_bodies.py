"""A request waits for its body, and nothing else waits for it; what is given up leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
import pytest

from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import Backend
from tests.integration.harness.bodies import LIMIT_BYTES, chat, pieces
from tests.integration.harness.connection import Connection
from tests.integration.harness.envoy import Envoy
from tests.integration.harness.fleet import decision_fields
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import COMPLETIONS, post
from tests.integration.harness.http2 import Http2Connection
from tests.integration.harness.picking import picking_envoy
from tests.integration.harness.wait import wait_until

BODY = chat(100_000)
UPLOAD = b'--cut\r\ncontent-disposition: form-data; name="file"\r\n\r\n' + bytes(400_000)


@dataclass
class DataPath:
    """An Envoy of one worker, which every request shares, with one engine."""

    envoy: Envoy
    backend: Backend
    ads: AdsServer
    #: Log entries of the requests that waited for the filter.
    before: int

    async def open(
        self, method: str = "POST", length: int = len(BODY), kind: str = "application/json"
    ) -> Connection:
        """A connection on which Envoy has a request's headers; the body is the test's part."""
        connection = await Connection(self.envoy.url).open()
        lines = [f"{method} {COMPLETIONS} HTTP/1.1", "host: test", f"content-type: {kind}"]
        head = "\r\n".join([*lines, f"content-length: {length}", "", ""])
        await self.take(connection, head.encode())
        return connection

    async def decisions(self, count: int, method: str = "POST") -> list[dict[str, str]]:
        """What the filter decided on the last requests, once so many are finished."""

        def found() -> list[dict[str, str]] | None:
            entries = [entry for entry in self.envoy.access_log() if entry["method"] == method]
            news = entries[self.before if method == "POST" else 0 :]
            return list(map(decision_fields, news)) if len(news) >= count else None

        return await wait_until(found, f"{count} log entries")

    def counted(self) -> int:
        """Open requests on the engine, as the filter counts them."""
        return self.ads.observations.in_flight(self.backend.node)

    async def envoys(self) -> int:
        """Open requests in Envoy."""
        name = "http.isocost_ingress.downstream_rq_active"
        return (await self.envoy.stats(f"^{name}$"))[name]

    async def received_bytes(self) -> int:
        name = "http.isocost_ingress.downstream_cx_rx_bytes_total"
        return (await self.envoy.stats(f"^{name}$"))[name]

    async def is_idle(self) -> bool:
        return self.counted() == 0 and await self.envoys() == 0

    async def take(self, connection: Connection, data: bytes) -> None:
        """Send it and return when Envoy has it all."""
        before = await self.received_bytes()
        connection.write(data)

        async def arrived() -> bool:
            return await self.received_bytes() >= before + len(data)

        await wait_until(arrived, "Envoy has it")


@pytest.fixture
async def path(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> AsyncIterator[DataPath]:
    backend = await start_backend("node-1")
    async with FleetFeed(ads, [Row(backend)]):
        envoy = await picking_envoy(start_envoy, ads, client, [backend])
        yield DataPath(envoy, backend, ads, len(envoy.access_log()))


async def test_a_slow_body_in_many_pieces_is_waited_for_and_arrives_whole(path: DataPath) -> None:
    async with await path.open() as connection:
        *first, last = pieces(BODY, 4_000)
        for piece in first:
            await path.take(connection, piece)
        # Nothing was chosen: the last piece could hold the model.
        assert path.counted() == 0
        connection.write(last)
        assert (await connection.head()).status == 200
    assert path.backend.received[-1].body == BODY
    (decision,) = await path.decisions(1)
    assert decision["body_bytes"] == str(len(BODY))


async def test_bodies_that_never_end_hold_nobody_else_up(
    path: DataPath, client: aiohttp.ClientSession
) -> None:
    async with AsyncExitStack() as stack:
        for length in range(0, 100_000, 5_000):
            connection = await stack.enter_async_context(await path.open())
            await path.take(connection, BODY[:length])
        http2 = await stack.enter_async_context(Http2Connection(path.envoy.url))
        for length in range(0, 100_000, 20_000):
            await http2.send(http2.begin(), BODY[:length])
        for size in (2, 100_000, 1_000_000):
            body = chat(size)
            assert (await post(client, path.envoy, body=body))[0] == 200
            # On the same connection as the unfinished ones, too.
            assert (await http2.post([body]))[0] == 200
            assert [item.body for item in path.backend.received[-2:]] == [body, body]
        assert await path.envoys() == 20 + 5
        assert len(path.backend.received) == 6
        await wait_until(lambda: path.counted() == 0, "the answered ones are counted as ended")
    await wait_until(path.is_idle, "nothing is open")


async def test_clients_that_go_away_in_mid_body_leave_nothing(path: DataPath) -> None:
    large = chat(5_000_000)
    async with AsyncExitStack() as stack:
        before: list[Connection] = []
        for length in (0, 1, 50_000, len(BODY) - 1):
            before.append(await stack.enter_async_context(await path.open()))
            await path.take(before[-1], BODY[:length])
        # Those are chosen for already: the filter reads no more of them.
        behind: list[Connection] = []
        for length in (LIMIT_BYTES, 300_000):
            behind.append(await stack.enter_async_context(await path.open(length=len(large))))
            await path.take(behind[-1], large[:length])
        http2 = await stack.enter_async_context(Http2Connection(path.envoy.url))
        for body in (BODY[:10], BODY[:-1]):
            stream = http2.begin()
            await http2.send(stream, body)
            http2.reset(stream)
        await wait_until(lambda: path.counted() == 2, "two are counted")
        for connection in (*before, *behind):
            connection.cut()
        await wait_until(path.is_idle, "nothing is open")
    assert not path.backend.received
    assert path.ads.observations.total(path.backend.node, "resets") == 0


async def test_a_get_never_waits_for_a_body(path: DataPath) -> None:
    # An engine that has no use for the body does not wait either.
    path.backend.reads_body = False
    async with await path.open("GET", length=10) as connection:
        assert (await connection.head()).status == 200
    path.backend.reads_body = True
    for body in (b"", b"{}", BODY):
        async with await path.open("GET", length=len(body)) as connection:
            connection.write(body)
            assert (await connection.head()).status == 200
        assert path.backend.received[-1].method == "GET"
        assert path.backend.received[-1].body == body
    for decision in await path.decisions(4, "GET"):
        assert (decision["reason"], decision["body_bytes"]) == ("picked", "0")


async def test_an_upload_is_passed_on_from_its_first_byte(path: DataPath) -> None:
    kind = "multipart/form-data; boundary=cut"
    async with await path.open(length=len(UPLOAD), kind=kind) as connection:
        connection.write(UPLOAD[:1_000])
        await wait_until(lambda: path.counted() == 1, "the engine is chosen")
        connection.write(UPLOAD[1_000:])
        assert (await connection.head()).status == 200
    assert path.backend.received[-1].body == UPLOAD
    await wait_until(path.is_idle, "nothing is open")


async def test_a_hundred_bodies_grow_side_by_side(path: DataPath) -> None:
    """Each request reads its own body, whatever order their pieces come in."""
    bodies = [chat(20_000 + 500 * number) for number in range(100)]
    async with Http2Connection(path.envoy.url) as connection:
        streams = [connection.begin() for _ in bodies]
        for start in range(0, max(map(len, bodies)), 3_000):
            for stream, body in zip(streams, bodies, strict=True):
                await connection.send(stream, body[start : start + 3_000])
        answers = await asyncio.gather(*(connection.end(stream) for stream in streams))
    assert {status for status, _ in answers} == {200}
    assert sorted(item.body for item in path.backend.received) == sorted(bodies)
    sizes = [int(decision["body_bytes"]) for decision in await path.decisions(len(bodies))]
    assert sorted(sizes) == sorted(map(len, bodies))
    await wait_until(path.is_idle, "nothing is open")
