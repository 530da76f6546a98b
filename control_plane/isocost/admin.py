"""The control plane's HTTP pages: metrics, health, status, nodes, and settings by hand.

The pages are for anyone who can reach them; settings are taken from this machine only.
"""

from __future__ import annotations

import ipaddress
import json
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web

from isocost.errors import IsocostError, RejectedError
from isocost.manual import Note, parse_note


class Subject(Protocol):
    """What the pages show and change."""

    async def metrics_page(self) -> bytes: ...

    def status(self) -> dict[str, object]: ...

    async def nodes_page(self, signals: bool) -> str: ...

    def why(self, name: str) -> dict[str, object]: ...

    def not_ready(self) -> str | None: ...

    async def override(self, name: str, data: dict[str, object] | None, note: Note) -> None: ...

    async def drain(self, name: str, wanted: bool, note: Note) -> None: ...


def application(subject: Subject) -> web.Application:
    """The routes; every error is JSON with its message under error.message."""
    app = web.Application(middlewares=[_errors_as_json], client_max_size=64 * 1024)

    async def metrics(_: web.Request) -> web.Response:
        body = await subject.metrics_page()
        return web.Response(body=body, headers={"content-type": "text/plain; version=0.0.4"})

    async def healthz(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(_: web.Request) -> web.Response:
        reason = subject.not_ready()
        body = {"status": "ok"} if reason is None else {"status": "not ready", "reason": reason}
        return web.json_response(body, status=200 if reason is None else 503)

    async def status(_: web.Request) -> web.Response:
        return _json(subject.status())

    async def nodes(request: web.Request) -> web.Response:
        return web.json_response(text=await subject.nodes_page("signals" in request.query))

    async def why(request: web.Request) -> web.Response:
        return _json(subject.why(request.match_info["name"]))

    async def put_override(request: web.Request) -> web.Response:
        data, note = await _order(request)
        await subject.override(request.match_info["name"], data, note)
        return _json({"status": "ok"})

    async def delete_override(request: web.Request) -> web.Response:
        await subject.override(request.match_info["name"], None, await _bare_order(request))
        return _json({"status": "ok"})

    async def put_drain(request: web.Request) -> web.Response:
        await subject.drain(request.match_info["name"], True, await _bare_order(request))
        return _json({"status": "ok"})

    async def delete_drain(request: web.Request) -> web.Response:
        await subject.drain(request.match_info["name"], False, await _bare_order(request))
        return _json({"status": "ok"})

    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/v1/status", status)
    app.router.add_get("/v1/nodes", nodes)
    app.router.add_get("/v1/nodes/{name}/why", why)
    app.router.add_put("/v1/nodes/{name}/override", put_override)
    app.router.add_delete("/v1/nodes/{name}/override", delete_override)
    app.router.add_put("/v1/nodes/{name}/drain", put_drain)
    app.router.add_delete("/v1/nodes/{name}/drain", delete_drain)
    return app


async def _order(request: web.Request) -> tuple[dict[str, object], Note]:
    """What an operator sends: a JSON object (or nothing) with who and why among its fields."""
    if not _from_here(request.remote):
        raise web.HTTPForbidden(reason="settings are taken from the control plane's machine only")
    body = await request.read()
    try:
        data = json.loads(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise RejectedError(f"the body is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise RejectedError("the body must be a JSON object")
    note = parse_note(data, time.time())
    return {key: value for key, value in data.items() if key not in ("who", "why")}, note


async def _bare_order(request: web.Request) -> Note:
    data, note = await _order(request)
    if data:
        raise RejectedError(f"unknown field {next(iter(data))!r}; only who and why are taken here")
    return note


def _from_here(remote: str | None) -> bool:
    try:
        address = ipaddress.ip_address(remote or "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


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
    except IsocostError as error:
        return web.json_response({"error": {"message": str(error)}}, status=500)
    except web.HTTPException as error:
        return web.json_response(
            {"error": {"message": f"{error.reason}: {request.method} {request.path}"}},
            status=error.status,
        )
