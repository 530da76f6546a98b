"""The control plane daemon: servers, the tick, signals, and a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path

import grpc.aio
from aiohttp import web
from prometheus_client import CollectorRegistry

from isocost import manual
from isocost.admin import application
from isocost.config import ControlPlaneConfig
from isocost.discovery.registry import Registry
from isocost.discovery.telemetry_service import TelemetryService
from isocost.errors import StartError
from isocost.manual import Manual, Note
from isocost.metrics import ControlPlaneMetrics
from isocost.observe.fleet import FleetObserver
from isocost.pipeline import Pipeline
from isocost.push import observation_service
from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.options import server_options
from isocost.schedule import ticks
from isocost.status import fleet_gauges, node_rows, push_status, unseen_rows
from isocost.weight.override import parse_override

log = logging.getLogger(__name__)

#: Open streams get this long to end when the daemon stops.
_STOP_GRACE_S = 0.5


class ControlPlane:
    """All parts of one control plane, wired; ``run`` serves until ``stop`` is set."""

    def __init__(self, config: ControlPlaneConfig) -> None:
        self._config = config
        self._started_s = time.monotonic()
        self._registry = Registry(config.discovery, self._started_s)
        self._observer = FleetObserver(config.weight.latency_window_s, config.states.window_s)
        self._cache = Cache()
        self._ads = AdsService(self._cache)
        self._state_dir = None if config.state_dir is None else Path(config.state_dir)
        if self._state_dir is None:
            log.info("no state_dir is configured: settings by hand end with this process")
        kept = Manual() if self._state_dir is None else manual.load(self._state_dir)
        self._changing = asyncio.Lock()
        self._pipeline = Pipeline(config, self._registry, self._observer, self._cache, kept)
        self._metrics = ControlPlaneMetrics(
            lambda: fleet_gauges(self._pipeline, self._observer, self._ads)
        )

    @property
    def registry_of_metrics(self) -> CollectorRegistry:
        return self._metrics.registry

    def status(self) -> dict[str, object]:
        return {
            "uptime_s": time.monotonic() - self._started_s,
            "policy": self._config.filter.policy,
            "table_version": self._pipeline.table_version,
            "nodes": self._pipeline.states(),
            "envoys": self._observer.envoys(),
            "decisions": vars(self._observer.decisions),
            "push": push_status(self._ads),
        }

    def nodes(self) -> dict[str, object]:
        return {
            "nodes": node_rows(self._pipeline, self._observer),
            "unseen": unseen_rows(self._pipeline),
        }

    def not_ready(self) -> str | None:
        """Why this control plane cannot steer yet; None when it can."""
        return None if self._pipeline.nodes else "no node is known yet"

    async def override(self, name: str, data: dict[str, object] | None, note: Note) -> None:
        """Set a node's weight or entropy, or let go of it (None)."""
        self._pipeline.require_known(name)
        override = None if data is None else parse_override(data)
        await self._change(
            lambda now: now.overridden(name, override, None if override is None else note)
        )
        log.info(
            "node %s: %s; %s", name, override.text() if override else "computed numbers again", note
        )

    async def drain(self, name: str, wanted: bool, note: Note) -> None:
        """Order a node to be drained, or end that."""
        self._pipeline.require_known(name)
        await self._change(lambda now: now.drained(name, note if wanted else None))
        log.info("node %s: %s; %s", name, "drain" if wanted else "drain no longer", note)

    async def _change(self, change: Callable[[Manual], Manual]) -> None:
        """Keep what is new before it counts; in a thread, since a slow disk must not hold a table
        up.
        """
        async with self._changing:
            changed = change(self._pipeline.manual)
            if self._state_dir is not None:
                await asyncio.to_thread(manual.save, self._state_dir, changed)
            self._pipeline.manual = changed

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop``; StartError names the address that could not be bound."""
        server = grpc.aio.server(options=server_options())
        self._ads.add_to(server)
        TelemetryService(self._registry).add_to(server)
        observation_service.add_to(server, self._observer.apply)
        try:
            server.add_insecure_port(self._config.listen)
        except RuntimeError as error:
            raise StartError(f"cannot listen on {self._config.listen} (--listen)") from error
        runner = web.AppRunner(application(self), access_log=None)
        await runner.setup()
        tick: asyncio.Task[None] | None = None
        try:
            await self._bind_http(runner)
            await server.start()
            log.info("serving gRPC on %s, HTTP on %s", self._config.listen, self._config.http)
            # Everything made so far lives as long as the process: keep the collector off it.
            gc.freeze()
            tick = asyncio.create_task(self._tick_forever())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((tick, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
        finally:
            if tick is not None:
                tick.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await tick
            await server.stop(_STOP_GRACE_S)
            await runner.cleanup()

    async def _bind_http(self, runner: web.AppRunner) -> None:
        host, _, port = self._config.http.rpartition(":")
        try:
            await web.TCPSite(runner, host.strip("[]"), int(port)).start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise StartError(f"cannot listen on {self._config.http}: {reason} (--http)") from error

    async def _tick_forever(self) -> None:
        failing = False
        async for now_s in ticks(self._config.tick_ms / 1e3):
            try:
                with self._metrics.tick_seconds.time():
                    self._pipeline.tick(now_s, int(time.time() * 1e3))
                failing = False
            except Exception:
                # The last good table stays in force and its age tells the filters; a daemon that
                # died here would take discovery and status with it.
                self._metrics.tick_errors.inc()
                if not failing:
                    log.exception("a tick failed; the last table stays")
                failing = True


async def serve(config: ControlPlaneConfig) -> None:
    """Run a control plane until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await ControlPlane(config).run(stop)
