"""The filter reads a body up to its limit, and the engine gets it as it was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import aiohttp
import pytest

from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import Backend, Received, status
from tests.integration.harness.bodies import LIMIT_BYTES, chat, pieces
from tests.integration.harness.connection import Connection
from tests.integration.harness.envoy import Envoy
from tests.integration.harness.fleet import decision_fields
from tests.integration.harness.fleet_feed import FleetFeed, Row
from tests.integration.harness.gateway import COMPLETIONS, post
from tests.integration.harness.http2 import Http2Connection
from tests.integration.harness.picking import picking_envoy

#: Around what proxies hold in one buffer by default (64 KiB), an image, and what no filter reads.
SIZES = (2, 25_246, 65_500, 65_536, 73_072, 200_000, LIMIT_BYTES, LIMIT_BYTES + 1, 5_000_000)


@dataclass
class DataPath:
    """One Envoy with one engine."""

    envoy: Envoy
    backend: Backend

    async def check(self, count: int, body: bytes) -> Received:
        """The request after ``count`` others has arrived whole, and was read up to the limit."""
        entry = (await self.envoy.logged(count + 1))[count]
        received = self.backend.received[-1]
        assert received.body == body
        assert entry["status"] == 200
        fields = decision_fields(entry)
        assert fields["reason"] == "picked"
        assert int(fields["body_bytes"]) == min(len(body), LIMIT_BYTES)
        assert int(entry["bytes_in"]) == len(body)
        return received


@pytest.fixture
async def path(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> AsyncIterator[DataPath]:
    backend = await start_backend("node-1")
    async with FleetFeed(ads, [Row(backend)]):
        yield DataPath(await picking_envoy(start_envoy, ads, client, [backend]), backend)


async def test_bodies_of_a_known_length_arrive_as_they_were_sent(
    path: DataPath, client: aiohttp.ClientSession
) -> None:
    for size in SIZES:
        body = chat(size)
        count = len(path.envoy.access_log())
        assert (await post(client, path.envoy, body=body))[0] == 200
        received = await path.check(count, body)
        assert received.headers["content-length"] == str(size)
        assert "transfer-encoding" not in received.headers


async def test_chunked_bodies_arrive_as_they_were_sent(
    path: DataPath, client: aiohttp.ClientSession
) -> None:
    for size in SIZES:
        body = chat(size)
        count = len(path.envoy.access_log())

        async def chunks(body: bytes = body) -> AsyncIterator[bytes]:
            for piece in pieces(body, 4_093):
                yield piece

        async with client.post(path.envoy.url + COMPLETIONS, data=chunks()) as response:
            assert response.status == 200
        received = await path.check(count, body)
        assert received.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in received.headers


@pytest.mark.parametrize("with_length", [True, False], ids=["content-length", "no length"])
async def test_http2_bodies_arrive_as_they_were_sent(path: DataPath, with_length: bool) -> None:
    async with Http2Connection(path.envoy.url) as connection:
        for size in SIZES:
            body = chat(size)
            count = len(path.envoy.access_log())
            headers = [(b"content-length", str(size).encode())] if with_length else []
            assert (await connection.post(pieces(body, 20_000), headers))[0] == 200
            received = await path.check(count, body)
            assert received.headers.get("content-length") == (str(size) if with_length else None)


async def test_a_body_that_ends_with_trailers_is_whole(path: DataPath) -> None:
    async with Http2Connection(path.envoy.url) as connection:
        count = len(path.envoy.access_log())
        body = chat(70_000)
        stream = connection.begin()
        for piece in pieces(body, 9_000):
            await connection.send(stream, piece)
        assert (await connection.end(stream, [(b"x-checksum", b"none")]))[0] == 200
        await path.check(count, body)


async def test_a_body_in_many_small_pieces_is_read_as_one(path: DataPath) -> None:
    """Each piece is an HTTP/2 frame of its own; what UTF-8 or JSON is cut in two does not tell."""
    body = chat(1_500, "\u00e9\u6f22\U0001f600")
    async with Http2Connection(path.envoy.url) as connection:
        tokens = set()
        for piece in (len(body), 7, 1):
            count = len(path.envoy.access_log())
            assert (await connection.post(pieces(body, piece)))[0] == 200
            await path.check(count, body)
            entry = (await path.envoy.logged(count + 1))[count]
            tokens.add(decision_fields(entry)["prompt_tokens"])
    assert len(tokens) == 1


async def test_a_body_reaches_the_second_node_unharmed_after_the_first_one_failed(
    start_envoy: StartEnvoy,
    start_backend: StartBackend,
    ads: AdsServer,
    client: aiohttp.ClientSession,
) -> None:
    first, second = await start_backend("first"), await start_backend("second")
    # The second is next to never drawn, but it is the first one's alternate.
    async with FleetFeed(ads, [Row(first), Row(second, weight=1e-6)]):
        envoy = await picking_envoy(start_envoy, ads, client, [first, second])
        first.answer = status(503)
        for refuses in (False, True):
            if refuses:
                await first.stop()
            async with Http2Connection(envoy.url) as connection:
                for size in SIZES:
                    body = chat(size)
                    assert (await post(client, envoy, body=body))[0] == 200
                    assert second.received[-1].body == body
                    assert (await connection.post(pieces(body, 30_000)))[0] == 200
                    assert second.received[-1].body == body
        assert {request.body for request in first.received} == {chat(size) for size in SIZES}
        entries = (await envoy.logged(4 * len(SIZES)))[-4 * len(SIZES) :]
        assert {entry["attempts"] for entry in entries} == {2}


def unusual_bodies() -> Iterator[tuple[str, bytes]]:
    """Content types and bodies that are no chat request."""
    for text in (b"", b"{", b"[" * 100_000, b'{"a":' * 20_000, b"\xff\xfe\x00" * 1_000, b"null"):
        yield "application/json", text
    part = b'--cut\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    yield "multipart/form-data; boundary=cut", part + bytes(range(256)) * 1_000 + b"\r\n--cut--\r\n"
    yield "application/octet-stream", bytes(300_000)


async def test_whatever_is_no_request_of_a_known_kind_arrives_as_well(
    path: DataPath, client: aiohttp.ClientSession
) -> None:
    before = len(path.envoy.access_log())
    for content_type, body in unusual_bodies():
        headers = [("content-type", content_type)]
        assert (await post(client, path.envoy, headers, body))[0] == 200
        received = path.backend.received[-1]
        assert received.body == body
        assert received.headers["content-type"] == content_type
    entries = await path.envoy.logged(before + len(path.backend.received))
    decisions = [entry["decision"] for entry in entries[before:]]
    assert [decision for decision in decisions if "reason=picked" not in decision] == []
    await assert_no_trap(path.envoy)


async def test_bytes_that_are_no_text_in_headers_trap_nothing(path: DataPath) -> None:
    body = chat(30_000)
    value = b"\xa1\xb1"
    names = (b"x-isocost-model", b"x-isocost-user", b"authorization", b"x-other")
    async with Http2Connection(path.envoy.url) as connection:
        headers = [(name, value) for name in names]
        assert (await connection.post([body], headers))[0] == 200
    async with await Connection(path.envoy.url).open() as connection:
        lines = [f"POST {COMPLETIONS} HTTP/1.1".encode(), b"host: test"]
        lines += [b"content-length: %d" % len(body)]
        lines += [name + b": " + value for name in names]
        connection.write(b"\r\n".join([*lines, b"", body]))
        assert (await connection.head()).status == 200
    for received in path.backend.received:
        assert received.body == body
        for name in names:
            got = received.headers[name.decode()]
            assert got.encode("utf-8", "surrogateescape") == value
    assert len(path.backend.received) == 2
    await assert_no_trap(path.envoy)


async def test_a_client_that_asks_before_it_sends_is_told_to_go_on(path: DataPath) -> None:
    body = chat(100_000)
    async with await Connection(path.envoy.url).open() as connection:
        count = len(path.envoy.access_log())
        lines = [f"POST {COMPLETIONS} HTTP/1.1", "host: test", f"content-length: {len(body)}"]
        connection.write("\r\n".join([*lines, "expect: 100-continue", "", ""]).encode())
        assert (await connection.head()).status == 100
        connection.write(body)
        assert (await connection.head()).status == 200
    await path.check(count, body)


async def assert_no_trap(envoy: Envoy) -> None:
    """Its filter is the one that it began with."""
    reloads = await envoy.stats("^wasm.isocost.vm_reload")
    assert reloads
    assert not any(reloads.values()), reloads
