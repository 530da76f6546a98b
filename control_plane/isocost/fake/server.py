"""The fake GPU node: an OpenAI-compatible server in front of a modelled engine."""

from __future__ import annotations

import asyncio
import errno
import itertools
import signal
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from aiohttp import web

from isocost.errors import StartError
from isocost.fake.answers import Answer, error_body, fake_text, model_list
from isocost.fake.behaviour import BehaviourControl
from isocost.fake.cards import MAX_LENGTH_TOKENS, Hardware
from isocost.fake.driver import EngineDriver
from isocost.fake.engine import Engine, coarse_marks
from isocost.fake.metrics import EngineMetrics
from isocost.fake.requests import CompletionRequest, parse_request
from isocost.fake.strict import BadRequestError, parse_object
from isocost.fake.telemetry import FakeTelemetry

#: Longest prompt of the model at 4 bytes a token is 0.5 MB; JSON escapes can multiply it.
MAX_BODY_BYTES = 64 * 1024 * 1024
#: Longer than a proxy keeps an idle upstream connection (Envoy: 1 h), so that the proxy closes it
#: and no request meets a connection that is just going away.
KEEPALIVE_S = 3700
#: A load test opens thousands of connections at once.
BACKLOG = 4096
#: What a stopping node grants its open streams.
SHUTDOWN_S = 0.5


@dataclass(frozen=True)
class FakeNodeSettings:
    """``stream_chunks``: pieces of a streamed answer at most; None = one a token."""

    name: str
    host: str
    port: int
    model: str
    hardware: Hardware
    max_num_seqs: int = 128
    stream_chunks: int | None = 8
    seed: int = 0


class FakeNode:
    """One node. Must be made inside a running event loop."""

    def __init__(self, settings: FakeNodeSettings) -> None:
        loop = asyncio.get_running_loop()
        hardware = settings.hardware
        self._settings = settings
        self._engine = Engine(hardware.speed, hardware.kv_pool_tokens, settings.max_num_seqs)
        self._max_length = min(MAX_LENGTH_TOKENS, hardware.kv_pool_tokens)
        self._telemetry = FakeTelemetry(
            hardware, self._engine, settings.name, settings.seed, loop.time
        )
        self._metrics = EngineMetrics(self._engine, settings.model, self._telemetry.engine_reading)
        self._driver = EngineDriver(self._engine, self._metrics.observe)
        self._behaviour = BehaviourControl()
        self._text = fake_text(settings.seed)
        self._numbers = itertools.count()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_json_errors])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completion)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/fake/telemetry", self._telemetry_page)
        app.router.add_post("/fake/telemetry", self._order_telemetry)
        app.router.add_post("/fake/behaviour", self._order_behaviour)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, chat=True)

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, chat=False)

    async def _complete(self, http: web.Request, chat: bool) -> web.StreamResponse:
        body = await http.read()
        self._telemetry.net_bytes += len(body)
        behaviour = self._behaviour.next()
        if behaviour.status:
            raise BadRequestError(behaviour.status, f"ordered to answer {behaviour.status}")
        request = parse_request(body, chat, self._settings.model, self._max_length)
        answer = Answer(
            request, next(self._numbers), self._settings.name, self._settings.model, self._text
        )
        delay_s = request.first_token_delay_s + behaviour.first_token_delay_s
        if request.stream:
            return await self._stream(http, request, answer, delay_s)
        marks = coarse_marks(request.output_tokens, 2)
        async with aclosing(self._driver.run(request.prompt_tokens, marks, delay_s)) as news:
            async for _ in news:
                pass
        whole = answer.whole()
        self._telemetry.net_bytes += len(whole)
        return _json(whole)

    async def _stream(
        self, http: web.Request, request: CompletionRequest, answer: Answer, delay_s: float
    ) -> web.StreamResponse:
        chunks = self._settings.stream_chunks or request.output_tokens
        marks = coarse_marks(request.output_tokens, max(chunks, 2))
        response = web.StreamResponse()
        response.content_type = "text/event-stream"
        response.headers["Cache-Control"] = "no-cache"
        # As vLLM does: the head goes out at once, the first token when there is one.
        await response.prepare(http)
        async with aclosing(self._driver.run(request.prompt_tokens, marks, delay_s)) as news:
            async for progress in news:
                data = answer.event(progress.tokens, progress.finished)
                self._telemetry.net_bytes += len(data)
                await response.write(data)
        return response

    async def _models(self, _: web.Request) -> web.Response:
        return _json(model_list(self._settings.model, self._max_length))

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _metrics_page(self, _: web.Request) -> web.Response:
        self._driver.catch_up()
        return web.Response(
            body=self._metrics.page(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _telemetry_page(self, _: web.Request) -> web.Response:
        self._driver.catch_up()
        return _json(self._telemetry.page())

    async def _order_telemetry(self, request: web.Request) -> web.Response:
        self._telemetry.order(parse_object(await request.read()))
        return await self._telemetry_page(request)

    async def _order_behaviour(self, request: web.Request) -> web.Response:
        self._behaviour.order(parse_object(await request.read()))
        self._driver.hang(self._behaviour.hang)
        return _json(b"{}")


async def serve(settings: FakeNodeSettings, ready: Callable[[int], None]) -> None:
    """Run one node until SIGTERM or SIGINT; ``ready`` gets the port when it listens.

    StartError: the port cannot be had.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = await start(settings)
    try:
        ready(runner.addresses[0][1])
        await stop.wait()
    finally:
        await runner.cleanup()


async def start(settings: FakeNodeSettings) -> web.AppRunner:
    """A listening node; its port is in ``addresses`` and ``cleanup`` stops it."""
    runner = web.AppRunner(
        FakeNode(settings).app(),
        access_log=None,
        # A client that hangs up cancels its handler, and with it its sequence.
        handler_cancellation=True,
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    site = web.TCPSite(runner, settings.host, settings.port, backlog=BACKLOG)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        where = f"{settings.host}:{settings.port}"
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"{where} is in use; choose another with --listen") from error
        raise StartError(f"cannot listen on {where} (--listen): {error}") from error
    return runner


@web.middleware
async def _json_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except BadRequestError as error:
        return _json(error_body(error.status, str(error), error.field), error.status)
    except web.HTTPException as error:
        return _json(error_body(error.status, error.reason), error.status)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
