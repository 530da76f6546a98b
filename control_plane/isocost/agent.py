"""The agent of one GPU machine: samples its nodes every tick and reports them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import start_http_server

from isocost.agent_metrics import AgentMetrics
from isocost.config import AgentConfig
from isocost.config_source import Loaded, built_in
from isocost.errors import StartError
from isocost.model import Node, NodeSample
from isocost.reload import Reload
from isocost.schedule import report_lead_s, ticks_of
from isocost.telemetry.machine import Machine
from isocost.telemetry.nodes import Nodes
from isocost.telemetry.nvml.process import Gpu
from isocost.telemetry.report import encode_report
from isocost.telemetry.sampler import NodeSampler, sample_all
from isocost.telemetry.scrape import TIMEOUT_S, Pages
from isocost.telemetry.uplink import Newest, Uplink

if TYPE_CHECKING:
    from isocost.discovery.consul_registration import ConsulRegistration

#: How much of a tick a sample may wait for slow pages.
WAIT_SHARE = 0.5
#: One patient sample waits so long for the GPUs, which a driver may have to wake.
FIRST_READ_S = 10.0

#: What a running agent can take from its file.
_LIVE = frozenset(("nodes", "interval_ms"))

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MachineSample:
    """What one sample found: the nodes whose engine answers, and all GPUs that NVML lists."""

    wall_unix_s: float
    nodes: tuple[NodeSample, ...]
    gpus: tuple[Gpu, ...]


async def sample_once(config: AgentConfig) -> MachineSample:
    """One patient sample."""
    async with Pages() as pages:
        machine = Machine(config)
        samplers = [NodeSampler(node, pages, machine) for node in config.nodes]
        async with _reading(machine):
            await asyncio.gather(*(sampler.read_handles() for sampler in samplers))
            nodes = await sample_all(samplers, TIMEOUT_S + 1)
            return MachineSample(time.time(), nodes, machine.nvml.gpus() if machine.nvml else ())


class Agent:
    """Samples and reports; ``loaded`` is the file that ``config`` is from, which is followed then.
    Made in its loop. ConfigError: a node that Consul cannot keep.
    """

    def __init__(self, config: AgentConfig, loaded: Loaded[AgentConfig] | None = None) -> None:
        self._config = config
        self.reload = Reload(loaded or built_in(config), _LIVE, self._configure)
        self._newest = Newest()
        self._uplink = Uplink(config.control_plane, self._newest, random.Random())
        self._pages = Pages()
        self._machine = Machine(config)
        self._nodes = Nodes(self._pages, self._machine)
        self._metrics = AgentMetrics((), self._machine.nvml, self._uplink, self.reload)
        self._registration = _registration(config)
        self._configure(config)

    def _configure(self, config: AgentConfig) -> None:
        """Sample these nodes from the next tick on; those that are as before notice nothing."""
        if self._registration is not None:
            # First: it may refuse them.
            self._registration.follow(_configured(config))
        self._machine.serve(config.nodes)
        self._nodes.follow(config.nodes)
        self._metrics.follow(self._nodes.samplers, self._machine.nvml)
        self._config = config

    async def run(self) -> None:
        """Until cancelled. StartError names the address that could not be bound."""
        config = self._config
        async with (
            self._pages,
            _serving(config.http, self._metrics),
            asyncio.TaskGroup() as group,
        ):
            for work in (
                self._uplink.run(),
                self._machine.run(),
                self._nodes.watch(),
                self.reload.run(),
            ):
                group.create_task(work)
            if self._registration is not None:
                group.create_task(self._registration.run())
            # Everything made so far lives as long as the process: keep the collector off it.
            gc.freeze()
            await self._report_forever(config.name)

    async def _report_forever(self, name: str) -> None:
        metrics = self._metrics
        sequence, before_s = 0, None
        async for now_s in ticks_of(lambda: self._config.interval_ms / 1e3, report_lead_s(name)):
            if before_s is not None:
                metrics.interval_seconds.observe(now_s - before_s)
            before_s = now_s
            wait_s = self._config.interval_ms / 1e3 * WAIT_SHARE
            samples = await sample_all(self._nodes.samplers, wait_s)
            metrics.samples = samples
            if self._registration is not None:
                self._registration.samples = samples
            sequence += 1
            self._newest.put(encode_report(name, sequence, time.time(), now_s, samples))


def _registration(config: AgentConfig) -> ConsulRegistration | None:
    if config.consul is None:
        return None
    # Only here: its client is a good part of an agent's memory.
    from isocost.discovery.consul_registration import ConsulRegistration

    return ConsulRegistration(config.consul, config.name, _configured(config), random.Random())


def _configured(config: AgentConfig) -> list[Node]:
    """The nodes as they are configured: of any instance."""
    return [node.node(int(time.time())) for node in config.nodes]


@asynccontextmanager
async def _reading(machine: Machine) -> AsyncIterator[None]:
    """While the machine is read, once it was or is too late for it."""
    reader = asyncio.create_task(machine.run())
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_READ_S):
                await machine.heard()
        yield
    finally:
        reader.cancel()
        await asyncio.wait([reader])


@asynccontextmanager
async def _serving(address: str | None, metrics: AgentMetrics) -> AsyncIterator[None]:
    """While metrics are served, if they are wanted."""
    if address is None:
        yield
        return
    host, _, port = address.rpartition(":")
    try:
        server, thread = start_http_server(int(port), host.strip("[]"), metrics.registry)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StartError(f"cannot listen on {address}: {reason} (http)") from error
    log.info("serving metrics on http://%s/metrics", address)
    try:
        yield
    finally:
        # It may be waiting for this loop, to read what it shows.
        await asyncio.to_thread(server.shutdown)
        await asyncio.to_thread(thread.join)
        server.server_close()


async def serve(loaded: Loaded[AgentConfig]) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP reads the file again."""
    loop = asyncio.get_running_loop()
    with loaded.source.naming():
        agent = Agent(loaded.config, loaded)
    running = loop.create_task(agent.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    loop.add_signal_handler(signal.SIGHUP, agent.reload.ask)
    try:
        await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
