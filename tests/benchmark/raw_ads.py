"""Many ADS clients in one process that cost next to nothing: HTTP/2 by hand, nothing is decoded.

    python -m tests.benchmark.raw_ads PORT CLIENTS WARM_UP_S SECONDS

Each has a connection of its own and follows the roster, the estimates and the tables as a filter's
feed does: every response is answered at once. Prints a line when all have had a table; from
WARM_UP_S later on it measures for SECONDS, and prints a line of JSON: the milliseconds between
tables, of all clients together.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time
from dataclasses import dataclass, field

from isocost.push.ads import SERVICE
from isocost.push.encode import field as text_field
from isocost.push.fleet import RESOURCE
from isocost.push.type_urls import ESTIMATES, ROSTER, TABLE
from isocost.push.variant import WHOLE

READY = "every client has had a table"
_START_S = 60.0
_READ_BYTES = 1 << 18

_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK, _END_STREAM, _END_HEADERS = 1, 1, 4
#: So large that no client ever has to grant more.
_WINDOW = 2**31 - 1
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: A response's head, version and type, and its end, the nonce, are within so many bytes.
_HEAD, _TAIL = 160, 64


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _headers() -> bytes:
    """:method POST, :scheme http, :path, :authority, content-type, te; nothing is indexed."""

    def text(value: str) -> bytes:
        return bytes([len(value)]) + value.encode()

    path = f"/{SERVICE}/{WHOLE.method}"
    return b"".join(
        (
            b"\x83\x86\x04" + text(path),
            b"\x01" + text("control-plane"),
            b"\x0f\x10" + text("application/grpc"),
            b"\x00" + text("te") + text("trailers"),
        )
    )


def message(request: bytes) -> bytes:
    """A gRPC message in a DATA frame."""
    return frame(_DATA, 0, 1, b"\x00" + struct.pack(">I", len(request)) + request)


_OPEN = b"".join(
    (
        _PREFACE,
        # SETTINGS_INITIAL_WINDOW_SIZE, SETTINGS_MAX_FRAME_SIZE.
        frame(_SETTINGS, 0, 0, struct.pack(">HIHI", 4, _WINDOW, 5, 2**24 - 1)),
        frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW - 65_535)),
        frame(_HEADERS, _END_HEADERS, 1, _headers()),
    )
)
#: Fields 3 (names) and 4 (type URL) of a DiscoveryRequest.
_SUBSCRIBE = {
    url: text_field(3, RESOURCE.encode()) + text_field(4, url.encode())
    for url in (ROSTER, ESTIMATES, TABLE)
}
_KINDS = {url.encode(): request for url, request in _SUBSCRIBE.items()}


@dataclass
class Client:
    """One connection. ``tables_s`` are the times at which tables came."""

    socket: socket.socket
    got: bytearray = field(default_factory=bytearray)
    body: bytearray = field(default_factory=bytearray)
    tables_s: list[float] = field(default_factory=list)

    def read(self, now_s: float) -> None:
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the control plane hung up")
        self.got += data
        at, end, answer = 0, len(self.got), bytearray()
        while end - at >= 9:
            size = int.from_bytes(self.got[at : at + 3], "big")
            if end - at < 9 + size:
                break
            kind, flags = self.got[at + 3], self.got[at + 4]
            payload = self.got[at + 9 : at + 9 + size]
            at += 9 + size
            if kind == _DATA:
                self.body += payload
                answer += self._messages(now_s)
            elif kind in (_PING, _SETTINGS) and not flags & _ACK:
                answer += frame(kind, _ACK, 0, bytes(payload) if kind == _PING else b"")
            elif kind == _HEADERS and flags & _END_STREAM:
                raise ConnectionError(f"the control plane ended a stream: {bytes(payload)!r}")
            elif kind in (_RST, _GOAWAY):
                raise ConnectionError(f"the control plane sent frame {kind}: {bytes(payload)!r}")
        del self.got[:at]
        if answer:
            self.socket.sendall(answer)

    def _messages(self, now_s: float) -> bytes:
        answers = bytearray()
        while len(self.body) >= 5:
            size = 5 + int.from_bytes(self.body[1:5], "big")
            if len(self.body) < size:
                break
            response = bytes(self.body[5:size])
            del self.body[:size]
            head, tail = response[:_HEAD], response[-_TAIL:]
            [(url, request)] = [item for item in _KINDS.items() if item[0] in head]
            if url == TABLE.encode():
                self.tables_s.append(now_s)
            # The nonce, hexadecimal digits and dots, is the last field: its tag is the last star.
            answers += message(request + tail[tail.rindex(b"*") :])
        return bytes(answers)


def open_client(port: int, number: int) -> Client:
    connection = socket.create_connection(("127.0.0.1", port), timeout=_START_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Field 2, the node, and in it field 1, its id.
    node = text_field(2, text_field(1, f"raw-{port}-{number}".encode()))
    requests = list(_SUBSCRIBE.values())
    connection.sendall(_OPEN + message(node + requests[0]) + b"".join(map(message, requests[1:])))
    return Client(connection)


def serve(selector: selectors.BaseSelector, timeout_s: float) -> None:
    """Answer what has come, waiting so long at most."""
    for key, _ in selector.select(timeout_s):
        key.data.read(time.monotonic())


def serve_for(selector: selectors.BaseSelector, seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        serve(selector, left_s)


def main() -> None:
    port, count = int(sys.argv[1]), int(sys.argv[2])
    warm_up_s, seconds = float(sys.argv[3]), float(sys.argv[4])
    selector = selectors.DefaultSelector()
    clients = []
    for number in range(count):
        client = open_client(port, number)
        selector.register(client.socket, selectors.EVENT_READ, client)
        clients.append(client)
        # The first ones are served while the last ones come: a ping is answered in time.
        serve(selector, 0.0)
    deadline_s = time.monotonic() + _START_S
    while not all(client.tables_s for client in clients):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not every client had a table within {_START_S:g} s")
        serve(selector, 1.0)
    print(READY, flush=True)
    serve_for(selector, warm_up_s)
    for client in clients:
        client.tables_s.clear()
    cpu_s = time.process_time()
    serve_for(selector, seconds)
    cpu_s = time.process_time() - cpu_s
    intervals = [
        round((after - before) * 1e3, 1)
        for client in clients
        for before, after in zip(client.tables_s, client.tables_s[1:], strict=False)
    ]
    fewest = min(len(client.tables_s) for client in clients)
    print(json.dumps({"intervals_ms": intervals, "fewest": fewest, "cpu_s": cpu_s}))


if __name__ == "__main__":
    main()
