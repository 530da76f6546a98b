"""A chat server with known delays: the load generator's own error is measured against it.

It runs as a process of its own, so that the generator's work does not delay it:
`python -m tests.integration.harness.known_delays PORT_FILE REQUESTS SEED SCALE`. What it sends is
planned by :func:`plan`, request by request in the order of arrival, with all times multiplied by
SCALE; `GET /recorded` says what it really did. `POST /stall?s=2` makes it send nothing for 2 s.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

#: Pieces of text in an answer, and the tokens that its usage states.
CHUNKS = 4
OUTPUT_TOKENS = 16
#: Medians in seconds and sigmas of two log-normal distributions: the first piece (p99: 1 s), and
#: from there to the last.
_FIRST = (0.4, 0.4)
_REST = (0.3, 0.3)

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds from a request to its first piece, and from the first to the last."""

    first_s: float
    rest_s: float


def plan(requests: int, seed: int, scale: float = 1.0) -> list[Delays]:
    """``requests`` evenly spaced quantiles of both distributions in shuffled order: the sample has
    the distribution's percentiles, not those of a random draw."""
    order = random.Random(seed)
    columns = []
    for median_s, sigma in (_FIRST, _REST):
        column = [
            scale * median_s * math.exp(sigma * NormalDist().inv_cdf((rank + 0.5) / requests))
            for rank in range(requests)
        ]
        order.shuffle(column)
        columns.append(column)
    return [Delays(first_s, rest_s) for first_s, rest_s in zip(*columns, strict=True)]


class Server:
    """What its connections share. ``recorded`` are the seconds from each request to its first
    piece and to its last, as they really were."""

    def __init__(self, delays: list[Delays]) -> None:
        self._delays = delays
        self._taken = 0
        self.recorded: list[tuple[float, float]] = []
        self.stalled_until_s = 0.0
        self._first_request_s: float | None = None

    def next(self, now_s: float) -> Delays:
        """The delays of the next request; the plan repeats after its end."""
        if self._first_request_s is None:
            self._first_request_s = now_s
        self._taken += 1
        return self._delays[(self._taken - 1) % len(self._delays)]

    def stall(self, now_s: float, seconds: float) -> float:
        """Send nothing for ``seconds``; how long after the first request that began."""
        assert self._first_request_s is not None
        self.stalled_until_s = now_s + seconds
        return now_s - self._first_request_s


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, as little of it as the generator needs."""

    _transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or len(body) < (int(length[1]) if length else 0):
            return
        self._buffer = b""
        if head.startswith(b"GET"):
            self._whole(json.dumps(self._server.recorded))
        elif head.startswith(b"POST /stall"):
            seconds = float(head.split(None, 2)[1].rpartition(b"=")[2])
            self._whole(json.dumps(self._server.stall(self._loop.time(), seconds)))
        else:
            self._chat(self._loop.time())

    def _whole(self, text: str) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(text)}"
        self._transport.write(f"{head}\r\n\r\n{text}".encode())

    def _chat(self, received_s: float) -> None:
        delays = self._server.next(received_s)
        self._loop.call_at(received_s + delays.first_s, self._first, received_s, delays)

    def _first(self, received_s: float, delays: Delays) -> None:
        if self._stalled(self._first, received_s, delays):
            return
        self._transport.write(_HEAD + _piece(_TEXT))
        self._later(1, received_s, self._loop.time(), delays.rest_s)

    def _later(self, sent: int, received_s: float, first_s: float, rest_s: float) -> None:
        due_s = first_s + rest_s * sent / (CHUNKS - 1)
        self._loop.call_at(due_s, self._next, sent, received_s, first_s, rest_s)

    def _next(self, sent: int, received_s: float, first_s: float, rest_s: float) -> None:
        if self._stalled(self._next, sent, received_s, first_s, rest_s):
            return
        if sent < CHUNKS - 1:
            self._transport.write(_piece(_TEXT))
            self._later(sent + 1, received_s, first_s, rest_s)
            return
        self._transport.write(_piece(_TEXT + _END) + b"0\r\n\r\n")
        self._server.recorded.append((first_s - received_s, self._loop.time() - received_s))

    def _stalled(self, call: Callable[..., None], *arguments: object) -> bool:
        """Whether nothing may be sent now; then ``call`` comes after the stall."""
        stalled = self._loop.time() < self._server.stalled_until_s
        if stalled:
            self._loop.call_at(self._server.stalled_until_s, call, *arguments)
        return stalled or self._transport.is_closing()


def _event(**fields: object) -> bytes:
    head = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "m",
        "system_fingerprint": "known",
    }
    return b"data: " + json.dumps({**head, **fields}).encode() + b"\n\n"


_TEXT = _event(choices=[{"index": 0, "delta": {"content": "one two three four "}}])
_END = (
    _event(choices=[], usage={"prompt_tokens": 4, "completion_tokens": OUTPUT_TOKENS})
    + b"data: [DONE]\n\n"
)


def _piece(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def serve(port_file: Path, delays: list[Delays]) -> None:
    """Until the process is told to end; ``port_file`` is there once it listens."""
    server = Server(delays)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0, backlog=4096)
    ready = port_file.with_suffix(".new")
    ready.write_text(str(listener.sockets[0].getsockname()[1]))
    ready.rename(port_file)
    await listener.serve_forever()


if __name__ == "__main__":
    wanted = plan(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    asyncio.run(serve(Path(sys.argv[1]), wanted))
