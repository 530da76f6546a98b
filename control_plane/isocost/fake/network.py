"""The network of a fake node: late and lost pieces on its connections, and their resets.

A piece is what the HTTP server reads or writes at once. Connecting itself is never late.
"""

from __future__ import annotations

import asyncio
import functools
import random
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from isocost.fake.faults import Delay, Loss

#: Linux waits so long before it sends a lost piece again, doubling up to the longest wait.
RETRANSMISSION_S = 0.2
MAX_RETRANSMISSION_S = 120.0
#: With it a closed socket sends RST in place of FIN.
_NO_LINGER = struct.pack("ii", 1, 0)


def late_s(delay: Delay | None, loss: Loss | None, choose: random.Random) -> float:
    """How late the next piece is."""
    total_s = 0.0
    if delay is not None:
        total_s = (delay.ms + delay.jitter_ms * choose.uniform(-1, 1)) / 1e3
    wait_s = RETRANSMISSION_S
    while loss is not None and choose.random() < loss.fraction:
        total_s += wait_s
        wait_s = min(2 * wait_s, MAX_RETRANSMISSION_S)
    return total_s


class Network:
    """What one node's connections share. ``delay`` and ``loss`` None: nothing is late."""

    def __init__(self, seed: str) -> None:
        self._choose = random.Random(seed)
        self._connections: set[Connection] = set()
        self.delay: Delay | None = None
        self.loss: Loss | None = None
        #: No new connections, and no second request on the old ones.
        self.refusing = False

    def late_s(self) -> float:
        if self.delay is None and self.loss is None:
            return 0.0
        return late_s(self.delay, self.loss, self._choose)

    def join(self, connection: Connection) -> None:
        self._connections.add(connection)

    def leave(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def close_idle(self) -> None:
        """Close the connections without an open request, behind answers that are still on their
        way.
        """
        for connection in tuple(self._connections):
            if not connection.busy:
                connection.close()

    def abort(self) -> None:
        """Cut every connection now."""
        for connection in tuple(self._connections):
            connection.abort()


class Lane:
    """One direction of a connection: pieces come out in order, each as late as the network says."""

    def __init__(self, network: Network) -> None:
        self._loop = asyncio.get_running_loop()
        self._network = network
        self._waiting: deque[Callable[[], object]] = deque()
        self._last_s = 0.0

    def send(self, deliver: Callable[..., object], *data: object) -> None:
        wait_s = self._network.late_s()
        if not wait_s and not self._waiting:
            deliver(*data)
            return
        # Behind one that is later than this one would be, it waits: order is kept.
        self._last_s = max(self._last_s, self._loop.time() + wait_s)
        self._waiting.append(functools.partial(deliver, *data))
        self._loop.call_at(self._last_s, self._next)

    def clear(self) -> None:
        self._waiting.clear()

    def _next(self) -> None:
        # Timers of equal times may fire in any order; the pieces do not.
        if self._waiting:
            self._waiting.popleft()()


class Wire(asyncio.Protocol):
    """Between a socket and ``handler``, the protocol of the HTTP server."""

    def __init__(self, handler: asyncio.Protocol, network: Network) -> None:
        self._handler = handler
        self._network = network
        self._in = Lane(network)
        self._connection: Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._connection = Connection(transport, Lane(self._network))
        self._network.join(self._connection)
        self._handler.connection_made(self._connection)
        if self._network.refusing:
            # It was accepted just before.
            self._connection.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._network.leave(self._connection)
        self._in.clear()
        self._connection.lane.clear()
        self._handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._in.send(self._handler.data_received, data)

    def eof_received(self) -> bool:
        """It comes behind the data; what the handler makes of it is known only then."""
        self._in.send(self._end_of_input)
        return True

    def _end_of_input(self) -> None:
        if not self._handler.eof_received():
            self._connection.close()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()


class Connection(asyncio.Transport):
    """What the HTTP server writes to: every piece, and the end, go through the lane."""

    def __init__(self, transport: asyncio.Transport, lane: Lane) -> None:
        super().__init__()
        self._transport = transport
        self._closing = False
        self.lane = lane
        #: It has an open request.
        self.busy = False

    def write(self, data: Any) -> None:
        if not self._closing:
            self.lane.send(self._transport.write, data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self._end(self._transport.close)

    def reset(self) -> None:
        """End the connection with RST, behind what was written."""
        self._end(self._reset)

    def abort(self) -> None:
        self._closing = True
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._closing or self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def _end(self, end: Callable[[], None]) -> None:
        if not self._closing:
            self._closing = True
            self.lane.send(end)

    def _reset(self) -> None:
        connection = self._transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()
