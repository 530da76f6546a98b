"""The control plane's HTTP pages: metrics, health, status, nodes, and settings by hand."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from isocost.errors import RejectedError
from isocost.weight.override import Override, parse_override

log = logging.getLogger(__name__)


class Subject(Protocol):
    """What the pages show and change."""

    @property
    def registry_of_metrics(self) -> CollectorRegistry: ...

    def status(self) -> dict[str, object]: ...

    def nodes(self) -> list[dict[str, object]]: ...

    def not_ready(self) -> str | None: ...

    def set_override(self, name: str, override: Override | None) -> None: ...


def application(subject: Subject) -> web.Application:
    """The routes; every error is JSON with its message under error.message."""
    app = web.Application(middlewares=[_errors_as_json], client_max_size=64 * 1024)

    async def metrics(_: web.Request) -> web.Response:
        body = generate_latest(subject.registry_of_metrics)
        return web.Response(body=body, headers={"content-type": "text/plain; version=0.0.4"})

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(_: web.Request) -> web.Response:
        reason = subject.not_ready()
        body = {"status": "ok"} if reason is None else {"status": "not ready", "reason": reason}
        return web.json_response(body, status=200 if reason is None else 503)

    async def status(_: web.Request) -> web.Response:
        return _json(subject.status())

    async def nodes(_: web.Request) -> web.Response:
        return _json({"nodes": subject.nodes()})

    async def put_override(request: web.Request) -> web.Response:
        try:
            data = json.loads(await request.text())
        except (ValueError, UnicodeDecodeError) as error:
            raise RejectedError(f"the body is not JSON: {error}") from error
        subject.set_override(request.match_info["name"], parse_override(data))
        return _json({"status": "ok"})

    async def delete_override(request: web.Request) -> web.Response:
        subject.set_override(request.match_info["name"], None)
        return _json({"status": "ok"})

    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/v1/status", status)
    app.router.add_get("/v1/nodes", nodes)
    app.router.add_put("/v1/nodes/{name}/override", put_override)
    app.router.add_delete("/v1/nodes/{name}/override", delete_override)
    return app


def _json(data: object) -> web.Response:
    return web.json_response(text=json.dumps(data, allow_nan=False))


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except RejectedError as error:
        return web.json_response({"error": {"message": str(error)}}, status=400)
    except web.HTTPException as error:
        return web.json_response(
            {"error": {"message": f"{error.reason}: {request.method} {request.path}"}},
            status=error.status,
        )
