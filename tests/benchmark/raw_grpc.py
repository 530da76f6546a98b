"""A gRPC client stream that costs next to nothing: a thousand of them fit into one process.

It speaks as much HTTP/2 as a stream that only sends needs. A real client takes ten times as long
for a message, so that the load would take the processor from what is measured.
"""

from __future__ import annotations

import asyncio
from struct import Struct

_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 4, 6, 8, 9
_ENDING = {_HEADERS, 3, 7, _CONTINUATION}  # and RST_STREAM, GOAWAY
_END_HEADERS, _ACK = 4, 1
_INITIAL_WINDOW, _WINDOW = 4, 65_535
_STREAM, _CONNECTION = 1, 0
#: Of a frame; a server that wants larger ones would have to say so.
_LARGEST = 16_384
_HEAD = 9
_setting, _number, _prefix = Struct(">HI"), Struct(">I"), Struct(">BI")


class ClientStream(asyncio.Protocol):
    """One connection with one stream of messages on it."""

    def __init__(self, method: str, authority: str) -> None:
        self._method, self._authority = method, authority
        self._transport: asyncio.Transport
        self._received = b""
        self._initial = _WINDOW
        #: What the server lets in, of the connection and of the stream.
        self._window = {_CONNECTION: _WINDOW, _STREAM: _WINDOW}
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("it needs a connection")
        self._transport = transport
        headers = b"".join(
            b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
            for name, value in (
                (b":method", b"POST"),
                (b":scheme", b"http"),
                (b":path", self._method.encode()),
                (b":authority", self._authority.encode()),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
            )
        )
        transport.write(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, _CONNECTION, b"")
            + _frame(_HEADERS, _END_HEADERS, _STREAM, headers)
        )

    def connection_lost(self, _: Exception | None) -> None:
        self.ended = True

    def send(self, message: bytes) -> bool:
        """False if the server does not let it in now; nothing is kept."""
        data = _prefix.pack(0, len(message)) + message
        if self.ended or len(data) > min(self._window.values()):
            return False
        for stream in self._window:
            self._window[stream] -= len(data)
        self._transport.write(
            b"".join(
                _frame(_DATA, 0, _STREAM, data[at : at + _LARGEST])
                for at in range(0, len(data), _LARGEST)
            )
        )
        return True

    def data_received(self, data: bytes) -> None:
        received, at = self._received + data, 0
        while len(received) - at >= _HEAD:
            size = int.from_bytes(received[at : at + 3], "big")
            if len(received) - at < _HEAD + size:
                break
            kind, flags = received[at + 3], received[at + 4]
            stream = int.from_bytes(received[at + 5 : at + _HEAD], "big")
            self._on_frame(kind, flags, stream, received[at + _HEAD : at + _HEAD + size])
            at += _HEAD + size
        self._received = received[at:]

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            for name, value in _setting.iter_unpack(payload):
                if name == _INITIAL_WINDOW:
                    self._window[_STREAM] += value - self._initial
                    self._initial = value
            self._transport.write(_frame(_SETTINGS, _ACK, _CONNECTION, b""))
        elif kind == _PING and not flags & _ACK:
            self._transport.write(_frame(_PING, _ACK, _CONNECTION, payload))
        elif kind == _WINDOW_UPDATE:
            self._window[stream] += _number.unpack(payload)[0]
        elif kind in _ENDING:
            # The server has something to say before the stream's end: it refuses it.
            self.ended = True


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + _number.pack(stream) + payload
