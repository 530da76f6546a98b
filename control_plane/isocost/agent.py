"""The agent of one GPU machine: samples its nodes every tick and reports them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from isocost.config import AgentConfig
from isocost.model import NodeSample
from isocost.schedule import report_lead_s, ticks
from isocost.telemetry.nvml.process import Nvml
from isocost.telemetry.report import encode_report
from isocost.telemetry.sampler import NodeSampler, sample_all
from isocost.telemetry.scrape import TIMEOUT_S, open_session
from isocost.telemetry.uplink import Newest, Uplink

#: How much of a tick a sample may wait for slow pages.
WAIT_SHARE = 0.5
#: One patient sample waits so long for the GPUs, which a driver may have to wake.
FIRST_READ_S = 10.0


async def sample_once(config: AgentConfig) -> tuple[NodeSample, ...]:
    """One patient sample; nodes whose engine does not answer are not in it."""
    async with open_session() as session:
        nvml = _nvml(config)
        samplers = [NodeSampler(node, session, nvml) for node in config.nodes]
        async with _reading(nvml):
            return await sample_all(samplers, TIMEOUT_S + 1)


async def run_agent(config: AgentConfig) -> None:
    """Sample and report until cancelled."""
    newest = Newest()
    uplink = Uplink(config.control_plane, newest, random.Random())
    async with open_session() as session, asyncio.TaskGroup() as group:
        group.create_task(uplink.run())
        nvml = _nvml(config)
        if nvml is not None:
            group.create_task(nvml.run())
        samplers = [NodeSampler(node, session, nvml) for node in config.nodes]
        interval_s = config.interval_ms / 1e3
        sequence = 0
        async for now_s in ticks(interval_s, report_lead_s(config.name)):
            samples = await sample_all(samplers, interval_s * WAIT_SHARE)
            sequence += 1
            newest.put(encode_report(config.name, sequence, time.time(), now_s, samples))


def _nvml(config: AgentConfig) -> Nvml | None:
    """A reader of the machine's GPUs, if a node has some."""
    return Nvml() if any(node.gpus for node in config.nodes) else None


@asynccontextmanager
async def _reading(nvml: Nvml | None) -> AsyncIterator[None]:
    """While GPUs are read, once they were or are too late for it."""
    if nvml is None:
        yield
        return
    reader = asyncio.create_task(nvml.run())
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_READ_S):
                await nvml.heard()
        yield
    finally:
        reader.cancel()
        await asyncio.wait([reader])


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
