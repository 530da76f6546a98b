"""A closed loop of chat completions over kept connections, as cheap as Python does it.

    python -m tests.benchmark.closed_loop PORT BODY_FILE CONNECTIONS WARM_UP REQUESTS

Sends the warm-up, says "ready", waits for a line, sends the requests, says what came of them: a
JSON object of counts by status. Each connection sends its next request when its answer is complete.
Only answers with a content-length are understood.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Loop:
    """What the connections share: how many requests are still to be sent, and what came of them."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.left = 0
        self.open = 0
        self.by_status: Counter[str] = Counter()
        self.done = asyncio.Event()

    def start(self, connections: list[Connection], requests: int) -> None:
        self.left = requests
        self.done.clear()
        for connection in connections:
            connection.next()


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def next(self) -> None:
        if self._loop.left > 0:
            self._loop.left -= 1
            self._loop.open += 1
            self._transport.write(self._loop.request)
        elif self._loop.open == 0:
            self._loop.done.set()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(_HEAD_END)
        if not end:
            return
        at = head.find(_LENGTH) + len(_LENGTH)
        if len(body) < int(head[at:].partition(b"\r\n")[0]):
            return
        self._received = b""
        self._loop.by_status[head[9:12].decode("ascii", "replace")] += 1
        self._loop.open -= 1
        self.next()

    def connection_lost(self, error: Exception | None) -> None:
        sys.exit(f"a connection was lost: {error}")


def request_bytes(body: bytes) -> bytes:
    """One chat completion as HTTP/1.1 carries it."""
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    ) + body


async def run(
    port: int, body: bytes, connections: int, warm_up: int, requests: int
) -> Counter[str]:
    """How many of the requests after the warm-up got which status."""
    loop = Loop(request_bytes(body))
    event_loop = asyncio.get_running_loop()
    opened = [
        (await event_loop.create_connection(lambda: Connection(loop), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    loop.start(opened, warm_up)
    await loop.done.wait()
    loop.by_status.clear()
    print("ready", flush=True)
    await event_loop.run_in_executor(None, sys.stdin.readline)
    loop.start(opened, requests)
    await loop.done.wait()
    return loop.by_status


def main() -> None:
    port, body_file, connections, warm_up, requests = sys.argv[1:]
    body = Path(body_file).read_bytes()
    counts = asyncio.run(run(int(port), body, int(connections), int(warm_up), int(requests)))
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
