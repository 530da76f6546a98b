"""The ADS server: both variants, every stream reads and writes at once, all from one cache."""

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
from isocost.push.answers import Outcome
from isocost.push.cache import Cache
from isocost.push.encode import ResponseEncoder
from isocost.push.log_limit import LimitedLog
from isocost.push.request import RequestError
from isocost.push.stream import ClientStatus, Send, Stream
from isocost.push.type_urls import ORDER
from isocost.push.variant import DELTA, WHOLE, Variant

SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"

#: Of what a client sent is told back and logged: enough to know it again.
_REASON_LIMIT = 300

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PushIntervals:
    """Nearest-rank percentiles of the times between Tables, over all connected clients."""

    count: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Exchange:
    """A stream with what its messages are and where they come from and go to."""

    stream: Stream
    variant: Variant
    encoder: ResponseEncoder
    context: grpc.aio.ServicerContext


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
        methods = {variant.method: self._handler(variant) for variant in (WHOLE, DELTA)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))

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

    def _handler(self, variant: Variant) -> grpc.RpcMethodHandler:
        encoder = ResponseEncoder(variant.body)

        async def serve(_: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> None:
            name = f"{self._life}.{next(self._numbers)}"
            stream = Stream(name, context.peer(), self._clock(), variant)
            self._streams.add(stream)
            exchange = Exchange(stream, variant, encoder, context)
            try:
                await self._exchange(exchange)
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

        return grpc.stream_stream_rpc_method_handler(serve)

    async def _exchange(self, exchange: Exchange) -> None:
        """Read in one task and write in this one, until the client is done, gone or wrong."""
        with self._cache.watch() as wake:
            reader = self._open_streams.reader(self._read(exchange, wake))
            reader.add_done_callback(lambda _: wake.set())
            try:
                # A write is always waited for: gRPC cannot close a stream under one.
                while not reader.done():
                    # Each turn takes the newest snapshot, whatever a slow write made it miss.
                    send = exchange.stream.next_send(self._cache.snapshot)
                    if send is None:
                        await wake.wait()
                        wake.clear()
                    else:
                        await self._write(exchange, send)
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
        await self._open_streams.result(reader, exchange.context)

    async def _read(self, exchange: Exchange, wake: asyncio.Event) -> None:
        # Not over the iterator, which takes twice as long for each of a thousand clients' answers.
        while (raw := await exchange.context.read()) is not grpc.aio.EOF:
            request = exchange.variant.parse(raw)
            if exchange.stream.on_request(request) is Outcome.NACKED:
                self.nacks[request.type_url] += 1
                self._log.warn(
                    request.type_url,
                    f"{exchange.stream.client} refused {request.type_url}: {request.error}",
                    client=exchange.stream.client,
                    type=request.type_url,
                )
            if not exchange.stream.settled(self._cache.snapshot):
                wake.set()

    async def _write(self, exchange: Exchange, send: Send) -> None:
        try:
            await exchange.context.write(exchange.encoder.encode(send.response, send.nonce))
        except (grpc.aio.InternalError, grpc.aio.UsageError):
            # The client left while the write waited, and gRPC has not got round to saying so.
            # Ending as if it had: a stream that returns is sent a status, which would fail too.
            raise asyncio.CancelledError from None
        exchange.stream.written(send, self._clock())
