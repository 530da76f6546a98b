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
from isocost.errors import StartError
from isocost.model import NodeSample
from isocost.schedule import report_lead_s, ticks
from isocost.telemetry.machine import Machine
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


async def run_agent(config: AgentConfig) -> None:
    """Sample and report until cancelled. StartError names the address that could not be bound,
    ConfigError a node that Consul cannot keep.
    """
    newest = Newest()
    uplink = Uplink(config.control_plane, newest, random.Random())
    registration = _registration(config)
    async with Pages() as pages:
        machine = Machine(config)
        samplers = [NodeSampler(node, pages, machine) for node in config.nodes]
        metrics = AgentMetrics(samplers, machine.nvml, uplink)
        async with _serving(config.http, metrics), asyncio.TaskGroup() as group:
            group.create_task(uplink.run())
            group.create_task(machine.run())
            if registration is not None:
                group.create_task(registration.run())
            for sampler in samplers:
                group.create_task(sampler.watch())
            # Everything made so far lives as long as the process: keep the collector off it.
            gc.freeze()
            interval_s = config.interval_ms / 1e3
            sequence, before_s = 0, None
            async for now_s in ticks(interval_s, report_lead_s(config.name)):
                if before_s is not None:
                    metrics.interval_seconds.observe(now_s - before_s)
                before_s = now_s
                samples = await sample_all(samplers, interval_s * WAIT_SHARE)
                metrics.samples = samples
                if registration is not None:
                    registration.samples = samples
                sequence += 1
                newest.put(encode_report(config.name, sequence, time.time(), now_s, samples))


def _registration(config: AgentConfig) -> ConsulRegistration | None:
    if config.consul is None:
        return None
    # Only here: its client is a good part of an agent's memory.
    from isocost.discovery.consul_registration import ConsulRegistration

    nodes = [node.node(int(time.time())) for node in config.nodes]
    return ConsulRegistration(config.consul, config.name, nodes, random.Random())


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


async def serve(config: AgentConfig) -> None:
    """Run until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    agent = loop.create_task(run_agent(config))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.cancel)
    try:
        await agent
    except asyncio.CancelledError:
        if not agent.cancelled():
            raise
