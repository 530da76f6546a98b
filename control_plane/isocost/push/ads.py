"""The ADS server: every stream reads and writes at once, all from one cache."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count

import grpc
import grpc.aio

from isocost.open_streams import OpenStreams
from isocost.push.cache import Cache
from isocost.push.encode import ResponseEncoder
from isocost.push.log_limit import LimitedLog
from isocost.push.request import RequestError, parse_request
from isocost.push.stream import ClientStatus, Send, Stream
from isocost.push.subscription import Outcome
from isocost.push.type_urls import ORDER

SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"
METHOD = "StreamAggregatedResources"

#: Of what a client sent is told back and logged: enough to know it again.
_REASON_LIMIT = 300

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PushIntervals:
    """Nearest-rank percentiles of the times between Tables, over all connected clients."""

    count: int
    p50_ms: float
    p99_ms: float


class AdsService:
    """Serves the cache to every client. ``clock`` is monotonic, in seconds."""

    def __init__(
        self,
        cache: Cache,
        clock: Callable[[], float] = time.monotonic,
        open_streams: OpenStreams | None = None,
    ) -> None:
        self._cache = cache
        self._open_streams = open_streams or OpenStreams()
        self._clock = clock
        self._encoder = ResponseEncoder()
        self._log = LimitedLog(logger, clock)
        self._streams: set[Stream] = set()
        #: Since the start of this process: refusals by type, all of them served here, and streams
        #: that were closed because they asked for what is not.
        self.nacks: Counter[str] = Counter(dict.fromkeys(ORDER, 0))
        self.invalid_streams = 0
        # Nonces of this life differ from those that clients still hold of a former one.
        self._life = secrets.token_hex(4)
        self._numbers = count(1)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register on a server that was made with ``server_options()``."""
        handler = grpc.stream_stream_rpc_method_handler(self._serve)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
        )

    def clients(self) -> tuple[ClientStatus, ...]:
        """The connected clients, in no order."""
        now_s = self._clock()
        return tuple(stream.status(now_s) for stream in self._streams)

    def push_intervals_ms(self) -> list[float]:
        """The last intervals between Tables of every connected client, in one list."""
        return [interval for stream in self._streams for interval in stream.table_intervals_ms]

    def push_interval_ms(self) -> PushIntervals | None:
        """Percentiles of ``push_intervals_ms``; None before any client had two Tables."""
        ordered = sorted(self.push_intervals_ms())
        if not ordered:
            return None
        p50_ms, p99_ms = (ordered[math.ceil(len(ordered) * part) - 1] for part in (0.5, 0.99))
        return PushIntervals(len(ordered), p50_ms, p99_ms)

    async def _serve(
        self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> None:
        stream = Stream(f"{self._life}.{next(self._numbers)}", context.peer(), self._clock())
        self._streams.add(stream)
        try:
            await self._exchange(stream, requests, context)
        except RequestError as error:
            self.invalid_streams += 1
            reason = str(error)[:_REASON_LIMIT]
            self._log.warn(
                "invalid",
                f"closed the stream of {stream.client}: {reason}",
                client=stream.client,
            )
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
        finally:
            self._streams.discard(stream)

    async def _exchange(
        self, stream: Stream, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> None:
        """Read in one task and write in this one, until the client is done, gone or wrong."""
        with self._cache.watch() as wake:
            reader = self._open_streams.reader(self._read(stream, requests, wake))
            reader.add_done_callback(lambda _: wake.set())
            try:
                # A write is always waited for: gRPC cannot close a stream under one.
                while not reader.done():
                    # Each turn takes the newest snapshot, whatever a slow write made it miss.
                    send = stream.next_send(self._cache.snapshot)
                    if send is None:
                        await wake.wait()
                        wake.clear()
                    else:
                        await self._write(stream, send, context)
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
        await self._open_streams.result(reader, context)

    async def _read(
        self, stream: Stream, requests: AsyncIterator[bytes], wake: asyncio.Event
    ) -> None:
        async for raw in requests:
            request = parse_request(raw)
            if stream.on_request(request) is Outcome.NACKED:
                self.nacks[request.type_url] += 1
                self._log.warn(
                    request.type_url,
                    f"{stream.client} refused {request.type_url}: {request.error}",
                    client=stream.client,
                    type=request.type_url,
                )
            wake.set()

    async def _write(self, stream: Stream, send: Send, context: grpc.aio.ServicerContext) -> None:
        try:
            await context.write(self._encoder.encode(send.resources, send.names, send.nonce))
        except (grpc.aio.InternalError, grpc.aio.UsageError):
            # The client left while the write waited, and gRPC has not got round to saying so.
            # Ending as if it had: a stream that returns is sent a status, which would fail too.
            raise asyncio.CancelledError from None
        stream.written(send, self._clock())
