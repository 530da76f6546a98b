"""The interface of a fake node: OpenAI's completions, the engine's pages, and orders to it."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing

from aiohttp import web

from isocost.fake.answers import Answer, error_body, error_events, fake_text, model_list
from isocost.fake.driver import EngineDiedError
from isocost.fake.faults import Reset, parse_orders
from isocost.fake.models import MODELS
from isocost.fake.network import Connection
from isocost.fake.node import FakeNode
from isocost.fake.prompt import BYTES_PER_TOKEN
from isocost.fake.requests import CompletionRequest, parse_request
from isocost.fake.sequence import coarse_marks
from isocost.fake.settings import FakeNodeSettings
from isocost.fake.strict import BadRequestError, parse_json, parse_object

#: The longest prompt of any model, every byte as a JSON escape of six; and 1 MiB for the rest.
MAX_BODY_BYTES = 2**20 + 6 * BYTES_PER_TOKEN * max(m.max_length_tokens for m in MODELS.values())
#: Longer than a proxy keeps an idle upstream connection (Envoy: 1 h), so that the proxy closes it
#: and no request meets a connection that is just going away.
KEEPALIVE_S = 3700
#: What a stopping node grants its open streams.
SHUTDOWN_S = 0.5


class Interface:
    """The pages of one node."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self._settings = node.settings
        self._lengths = {
            name: hardware.max_length_tokens for name, hardware in node.settings.served.items()
        }
        self._text = fake_text(node.settings.seed)
        self._numbers = itertools.count()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guard])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/completions", self._completion)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/fake/telemetry", self._telemetry_page)
        app.router.add_post("/fake/telemetry", self._order_telemetry)
        app.router.add_get("/fake/gpus", self._gpus_page)
        app.router.add_post("/fake/gpus", self._order_gpus)
        app.router.add_get("/fake/faults", self._faults_page)
        app.router.add_post("/fake/faults", self._order_faults)
        app.router.add_delete("/fake/faults", self._clear_faults)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Errors in OpenAI's shape; the connection is busy meanwhile, and closed if need be."""
        connection = request.transport
        if isinstance(connection, Connection):
            connection.busy = True
        try:
            response = await handler(request)
        except BadRequestError as error:
            response = _json(error_body(error.status, str(error), error.field), error.status)
        except web.HTTPException as error:
            response = _json(error_body(error.status, error.reason), error.status)
        except EngineDiedError as error:
            response = _json(error_body(500, str(error)), 500)
        finally:
            if isinstance(connection, Connection):
                connection.busy = False
        if self._node.network.refusing:
            response.force_close()
        return response

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, chat=True)

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._complete(request, chat=False)

    async def _complete(self, http: web.Request, chat: bool) -> web.StreamResponse:
        body = await http.read()
        engine = self._node.engine
        traffic = self._node.traffic
        traffic.received_bytes += len(body)
        status = self._node.faults.take_status()
        if status is not None:
            raise BadRequestError(status, f"ordered to answer {status}")
        request = parse_request(body, chat, self._lengths)
        answer = Answer(request, next(self._numbers), self._settings.name, self._text)
        if request.stream:
            return await self._stream(http, request, answer)
        marks = coarse_marks(request.output_tokens, 2)
        cached_tokens = 0
        async with aclosing(
            engine.run(request.model, request.prompt, marks, request.first_token_delay_s)
        ) as news:
            async for progress in news:
                cached_tokens = progress.sequence.cached_tokens
        if self._node.faults.active(Reset) is not None:
            _reset(http)
            return web.Response()
        whole = answer.whole(cached_tokens)
        traffic.sent_bytes += len(whole)
        return _json(whole)

    async def _stream(
        self, http: web.Request, request: CompletionRequest, answer: Answer
    ) -> web.StreamResponse:
        chunks = self._settings.stream_chunks or request.output_tokens
        marks = coarse_marks(request.output_tokens, max(chunks, 2))
        response = web.StreamResponse()
        response.content_type = "text/event-stream"
        response.headers["Cache-Control"] = "no-cache"
        # As vLLM does: the head goes out at once, the first token when there is one.
        await response.prepare(http)
        engine = self._node.engine
        pieces = 0
        try:
            async with aclosing(
                engine.run(request.model, request.prompt, marks, request.first_token_delay_s)
            ) as news:
                async for progress in news:
                    reset = self._node.faults.active(Reset)
                    if reset is not None and (progress.finished or pieces >= reset.chunks):
                        _reset(http)
                        break
                    pieces += 1
                    if progress.finished:
                        data = answer.last_event(progress.sequence.cached_tokens)
                        self._node.traffic.sent_bytes += len(data)
                        await response.write_eof(data)
                    else:
                        data = answer.event(progress.tokens)
                        self._node.traffic.sent_bytes += len(data)
                        await response.write(data)
        except EngineDiedError as error:
            await response.write(error_events(500, str(error)))
        return response

    async def _models(self, _: web.Request) -> web.Response:
        return _json(model_list(self._settings.served))

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _metrics_page(self, _: web.Request) -> web.Response:
        return web.Response(
            body=await self._node.metrics_page(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _telemetry_page(self, _: web.Request) -> web.Response:
        return _json(await self._node.telemetry_page())

    async def _order_telemetry(self, request: web.Request) -> web.Response:
        body = await request.read()
        # Only now: the engine may have been started anew meanwhile.
        return _json(self._node.order_telemetry(parse_object(body)))

    async def _gpus_page(self, _: web.Request) -> web.Response:
        return _json(self._node.gpus_page())

    async def _order_gpus(self, request: web.Request) -> web.Response:
        return _json(self._node.order_gpus(parse_object(await request.read())))

    async def _faults_page(self, _: web.Request) -> web.Response:
        return _json(self._node.faults.page())

    async def _order_faults(self, request: web.Request) -> web.Response:
        self._node.faults.order(parse_orders(parse_json(await request.read())))
        return _json(self._node.faults.page())

    async def _clear_faults(self, _: web.Request) -> web.Response:
        self._node.faults.clear()
        return _json(self._node.faults.page())


class Server:
    """A listening node."""

    def __init__(self, node: FakeNode, runner: web.AppRunner, port: int) -> None:
        self._node = node
        self._runner = runner
        self.settings = node.settings
        self.port = port

    async def stop(self) -> None:
        self._node.stop()
        await self._runner.cleanup()


async def start(settings: FakeNodeSettings) -> Server:
    """StartError: the port cannot be had, or the machine's folder not be written."""
    node = FakeNode(settings)
    runner = web.AppRunner(
        Interface(node).app(),
        access_log=None,
        # A client that hangs up cancels its handler, and with it its sequence.
        handler_cancellation=True,
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    assert runner.server is not None
    try:
        port = await node.listen(runner.server)
    except BaseException:
        node.stop()
        await runner.cleanup()
        raise
    return Server(node, runner, port)


async def serve(nodes: Sequence[FakeNodeSettings], ready: Callable[[Server], None]) -> None:
    """Run the nodes until SIGTERM or SIGINT; ``ready`` gets each of them once all listen.

    StartError: as in start().
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    servers: list[Server] = []
    try:
        for settings in nodes:
            servers.append(await start(settings))
        for server in servers:
            ready(server)
        await stop.wait()
    finally:
        await asyncio.gather(*(server.stop() for server in servers))


def _reset(http: web.Request) -> None:
    """What is written to the request's connection from now on is lost."""
    if isinstance(http.transport, Connection):
        http.transport.reset()


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
