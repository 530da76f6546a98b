"""A client's HTTP/2 connection without TLS, as a gateway in front of Envoy has one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset

from tests.integration.harness.gateway import COMPLETIONS
from tests.integration.harness.wait import DEADLINE_S

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(slots=True)
class _Stream:
    status: int = 0
    body: bytes = b""
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Http2Connection:
    """A context manager; requests may be sent side by side."""

    def __init__(self, url: str) -> None:
        self._authority = urlsplit(url).netloc
        self._h2 = H2Connection(H2Configuration(header_encoding=False))
        self._streams: dict[int, _Stream] = {}
        self._news = asyncio.Event()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._reading: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        host, _, port = self._authority.partition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        self._h2.initiate_connection()
        self._flush()
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
        self._writer.transport.abort()

    def begin(self, headers: Headers = (), method: bytes = b"POST") -> int:
        """Send a completion request's headers; the stream's number."""
        stream = self._h2.get_next_available_stream_id()
        self._streams[stream] = _Stream()
        pseudo = [
            (b":method", method),
            (b":scheme", b"http"),
            (b":authority", self._authority.encode()),
            (b":path", COMPLETIONS.encode()),
        ]
        self._h2.send_headers(stream, [*pseudo, *headers])
        self._flush()
        return stream

    async def send(self, stream: int, data: bytes) -> None:
        """A piece of the body, as fast as Envoy lets it in."""
        async with asyncio.timeout(DEADLINE_S):
            while data:
                window = self._h2.local_flow_control_window(stream)
                size = min(window, self._h2.max_outbound_frame_size, len(data))
                if size == 0:
                    self._news.clear()
                    await self._news.wait()
                    continue
                self._h2.send_data(stream, data[:size])
                data = data[size:]
                self._flush()
                await self._writer.drain()

    async def end(self, stream: int, trailers: Headers = ()) -> tuple[int, bytes]:
        """End the body; the answer's status and body. ConnectionError if there is none."""
        if trailers:
            self._h2.send_headers(stream, trailers, end_stream=True)
        else:
            self._h2.end_stream(stream)
        self._flush()
        answer = self._streams[stream]
        async with asyncio.timeout(DEADLINE_S):
            await answer.done.wait()
        if not answer.status:
            raise ConnectionResetError("no answer")
        return answer.status, answer.body

    async def post(self, pieces: Iterable[bytes], headers: Headers = ()) -> tuple[int, bytes]:
        """One request; the answer's status and body."""
        stream = self.begin(headers)
        for piece in pieces:
            await self.send(stream, piece)
        return await self.end(stream)

    def reset(self, stream: int) -> None:
        """Give a request up."""
        self._h2.reset_stream(stream)
        self._flush()

    async def _read(self) -> None:
        while data := await self._reader.read(65_536):
            for event in self._h2.receive_data(data):
                stream = self._streams.get(getattr(event, "stream_id", None) or 0, _Stream())
                if isinstance(event, ResponseReceived):
                    stream.status = int(dict(event.headers)[b":status"])
                elif isinstance(event, DataReceived):
                    stream.body += event.data
                    length = event.flow_controlled_length
                    self._h2.acknowledge_received_data(length, event.stream_id)
                elif isinstance(event, StreamEnded | StreamReset):
                    stream.done.set()
            self._news.set()
            self._flush()
        for stream in self._streams.values():
            stream.done.set()

    def _flush(self) -> None:
        self._writer.write(self._h2.data_to_send())
