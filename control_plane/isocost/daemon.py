"""The control plane daemon: servers, the tick, signals, and a clean stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import grpc.aio
from aiohttp import web

from isocost import __version__, collector, first_roster, kept_answers, manual, state_file
from isocost.admin import application
from isocost.config import ControlPlaneConfig
from isocost.config_source import Loaded, built_in
from isocost.discovery.consul import ConsulWatch
from isocost.discovery.listing import Watch
from isocost.discovery.registry import Registry
from isocost.discovery.telemetry_service import TelemetryService
from isocost.discovery_status import discovery_status
from isocost.errors import RejectedError, StartError, StateError
from isocost.manual import Manual, Note, json_of
from isocost.metrics import ControlPlaneMetrics
from isocost.node_signals import node_signals
from isocost.observe.fleet import FleetObserver
from isocost.open_streams import OpenStreams
from isocost.output import named
from isocost.pipeline import Pipeline
from isocost.push import observation_service
from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.options import server_options
from isocost.reload import Reload
from isocost.schedule import ticks, ticks_of
from isocost.status import (
    NodesPage,
    config_status,
    envoy_status,
    fleet_gauges,
    push_status,
    signals_status,
)
from isocost.weight.override import parse_override, refuse_ignored
from isocost.why import why

log = logging.getLogger(__name__)

#: Open streams get this long to end when the daemon stops.
_STOP_GRACE_S = 0.5

#: What a running daemon can take from its file. Of discovery, sources and the time that the first
#: roster waits for are those of the start.
_LIVE = frozenset(
    (
        "tick_ms",
        "discovery.lost_after_ms",
        "discovery.forget_after_ms",
        "states",
        "weight",
        "entropy",
        "filter",
        "envoy",
        "models",
    )
)

#: How often the names of the roster are compared with those that are kept.
_KEEP_ROSTER_S = 1.0
#: How often it is looked whether the endpoints' weights are due, and how long after a tick: its
#: table has left by then.
_ENDPOINTS_S, _AFTER_TICK_S = 1.0, 0.1


class ControlPlane:
    """All parts of one control plane, wired; ``run`` serves until ``stop`` is set."""

    def __init__(
        self, config: ControlPlaneConfig, loaded: Loaded[ControlPlaneConfig] | None = None
    ) -> None:
        """``loaded``: the file that ``config`` is from, which is followed then."""
        self._config = config
        self.reload = Reload(loaded or built_in(config), _LIVE, self._configure)
        self._started_s = time.monotonic()
        consul = config.discovery.consul
        self._watches: tuple[Watch, ...] = () if consul is None else (ConsulWatch(consul),)
        self._registry = Registry(config.discovery, self._started_s, watches=self._watches)
        self._observer = FleetObserver(config.weight.latency_window_s, config.states.window_s)
        self._cache = Cache()
        self._open_streams = OpenStreams()
        self._ads = AdsService(self._cache, open_streams=self._open_streams)
        self._state_dir = None if config.state_dir is None else Path(config.state_dir)
        if self._state_dir is None:
            log.info("no state_dir is configured: settings by hand end with this process")
        kept, self._kept_names = Manual(), frozenset[str]()
        if self._state_dir is not None:
            state_file.prepare(self._state_dir)
            kept = manual.load(self._state_dir)
            self._kept_names = first_roster.load(self._state_dir)
            if (known := kept_answers.load(self._state_dir)) is not None:
                self._observer.history.load(known)
        redis_url = config.history.redis_url
        self._shared_answers = (
            None
            if redis_url is None
            else kept_answers.SharedAnswers(redis_url, self._observer.history)
        )
        self._changing = asyncio.Lock()
        self._pipeline = Pipeline(
            config, self._registry, self._observer, self._cache, kept, self._kept_names
        )
        self._nodes_pages = {
            signals: NodesPage(self._pipeline, self._registry, self._observer, signals)
            for signals in (False, True)
        }
        self._metrics = ControlPlaneMetrics(
            lambda: fleet_gauges(
                self._pipeline,
                self._registry,
                self._observer,
                self._ads,
                self._config.filter.policy,
            ),
            self.reload,
        )
        #: What made the last tick fail; None = it did not.
        self._failure: Exception | None = None

    def _configure(self, config: ControlPlaneConfig) -> None:
        """Take other settings: they count from the next tick on."""
        self._pipeline.configure(config)
        self._config = config

    async def metrics_page(self) -> bytes:
        return await self._metrics.page()

    def status(self) -> dict[str, object]:
        return {
            "version": __version__,
            "uptime_s": time.monotonic() - self._started_s,
            "config": config_status(self.reload),
            "policy": self._config.filter.policy,
            "table_version": self._pipeline.table_version,
            "nodes": self._pipeline.states(),
            "envoys_reporting": len(self._observer.envoys()),
            "envoys": envoy_status(self._observer),
            "decisions": vars(self._observer.decisions),
            "signals": signals_status(self._pipeline.latest, self._config.filter.policy),
            "stale_choices": self._observer.stale_choices,
            "answers": vars(self._observer.answers),
            "discovery": discovery_status(self._registry.state(time.monotonic())),
            "push": push_status(self._ads),
        }

    async def nodes_page(self, signals: bool) -> str:
        return await self._nodes_pages[signals].text()

    def why(self, name: str) -> dict[str, object]:
        """Why a node has its numbers. RejectedError: there is no such node in the table."""
        latest = self._pipeline.latest
        names = [node.name for node in latest.nodes] if latest else []
        if latest is None or name not in names:
            raise RejectedError(f"there is no node {name!r} in the table; {_named(names)}")
        index = names.index(name)
        sample = latest.samples[index]
        return {
            **why(latest, index, self._config),
            **json_of(self._pipeline.manual.of(name)),
            "signals": node_signals(sample, float(latest.ages_s[index])) if sample else None,
        }

    def not_ready(self) -> str | None:
        """Why this control plane cannot steer now; None when it can."""
        latest = self._pipeline.latest
        if latest is None:
            reason = "no node is known yet"
        elif not latest.nodes:
            reason = "no node is known: neither an agent nor a list names one"
        elif (age_s := time.monotonic() - latest.at_s) * 1e3 > self._config.filter.max_table_age_ms:
            reason = f"the last table is {age_s:.1f} s old"
        elif (old := self._registry.old_data(time.monotonic())) is not None:
            reason = old
        else:
            return None
        if latest is None or not latest.nodes:
            for source in self._registry.sources:
                if source.error is not None or source.listing is None:
                    reason += f"; {source.name}: {source.error or 'it has not answered yet'}"
        return reason if self._failure is None else f"{reason}; ticks fail: {self._failure!r}"

    async def override(self, name: str, data: dict[str, object] | None, note: Note) -> None:
        """Set a node's weight or entropy, or let go of it (None)."""
        self._pipeline.require_known(name)
        override = None if data is None else parse_override(data)
        if override is not None:
            refuse_ignored(override, self._config.filter.policy)
        await self._change(
            lambda now: now.overridden(name, override, None if override is None else note)
        )
        log.info(
            "node %s: %s; %s",
            *(name, override.text() if override else "computed numbers again", note),
            extra={"node": name, **note.json()},
        )

    async def drain(self, name: str, wanted: bool, note: Note) -> None:
        """Order a node to be drained, or end that."""
        self._pipeline.require_known(name)
        await self._change(lambda now: now.drained(name, note if wanted else None))
        log.info(
            "node %s: %s; %s",
            *(name, "drain" if wanted else "drain no longer", note),
            extra={"node": name, **note.json()},
        )

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
        TelemetryService(self._registry, self._open_streams).add_to(server)
        observation_service.add_to(server, self._observer, self._open_streams)
        try:
            server.add_insecure_port(self._config.listen)
        except RuntimeError as error:
            raise StartError(f"cannot listen on {self._config.listen} (--listen)") from error
        runner = web.AppRunner(application(self), access_log=None, shutdown_timeout=_STOP_GRACE_S)
        await runner.setup()
        tasks: list[asyncio.Task[object]] = []
        try:
            await self._bind_http(runner)
            await server.start()
            log.info("serving gRPC on %s, HTTP on %s", self._config.listen, self._config.http)
            collector.serve_from_here()
            tasks += [
                asyncio.create_task(work)
                for work in (
                    stop.wait(),
                    self._tick_forever(),
                    self._refresh_endpoints_forever(),
                    self.reload.run(),
                    *self._discovering(),
                    *self._keeping(),
                )
            ]
            # Only the first ever ends; another one that does has failed.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            self._open_streams.end()
            await server.stop(_STOP_GRACE_S)
            await runner.cleanup()
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _discovering(self) -> list[Coroutine[Any, Any, None]]:
        return [
            self._registry.names.run(),
            self._registry.probes.run(),
            *(watch.run() for watch in self._watches),
        ]

    def _keeping(self) -> list[Coroutine[Any, Any, None]]:
        work: list[Coroutine[Any, Any, None]] = []
        if self._state_dir is not None:
            work.append(self._keep_roster_forever(self._state_dir))
            kept = kept_answers.KeptFile(self._state_dir, self._observer.history)
            work.append(kept.keep_forever())
        if self._shared_answers is not None:
            work.append(self._shared_answers.share_forever())
        return work

    async def _bind_http(self, runner: web.AppRunner) -> None:
        host, _, port = self._config.http.rpartition(":")
        try:
            await web.TCPSite(runner, host.strip("[]"), int(port)).start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise StartError(f"cannot listen on {self._config.http}: {reason} (--http)") from error

    async def _tick_forever(self) -> None:
        async for now_s in ticks_of(lambda: self._config.tick_ms / 1e3):
            self._tick(now_s, int(time.time() * 1e3))

    async def _refresh_endpoints_forever(self) -> None:
        async for now_s in ticks(_ENDPOINTS_S, -_AFTER_TICK_S):
            try:
                self._pipeline.refresh_endpoints(now_s)
            except Exception:
                # As for a tick; the next try comes soon.
                log.exception("the endpoints' weights could not be published")

    def _tick(self, now_s: float, unix_ms: int) -> None:
        try:
            with self._metrics.tick_seconds.time():
                self._pipeline.tick(now_s, unix_ms)
            self._failure = None
        except Exception as error:
            # The last good table stays in force and its age tells the filters; a daemon that
            # died here would take discovery and status with it.
            self._metrics.tick_errors.inc()
            if self._failure is None or _kind(error) != _kind(self._failure):
                log.exception("a tick failed; the last table stays")
            self._failure = error

    async def _keep_roster_forever(self, folder: Path) -> None:
        """Keep the names that the next control plane waits for, beside the ticks."""
        told = ""
        async for _ in ticks(_KEEP_ROSTER_S):
            latest = self._pipeline.latest
            if latest is None or latest.heard_of == self._kept_names:
                continue
            names = latest.heard_of
            try:
                await asyncio.to_thread(first_roster.save, folder, names)
            except StateError as error:
                if str(error) != told:
                    log.warning("%s", error)
                told = str(error)
            else:
                self._kept_names, told = names, ""


def _named(names: Sequence[str]) -> str:
    if not names:
        return "it is empty"
    return f"it has {named(names)}"


def _kind(error: Exception) -> tuple[type[Exception], str, int]:
    """What an error is and where it began: its words may differ from tick to tick."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return type(error), frame.filename, frame.lineno or 0


async def serve(loaded: Loaded[ControlPlaneConfig]) -> None:
    """Run a control plane until SIGINT or SIGTERM; SIGHUP reads its file again."""
    with loaded.source.naming():
        control_plane = ControlPlane(loaded.config, loaded)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, control_plane.reload.ask)
    await control_plane.run(stop)
