"""The agent of one GPU machine: samples its nodes every tick and reports them."""

from __future__ import annotations

import asyncio
import random
import signal
import time

from isocost.config import AgentConfig
from isocost.model import NodeSample
from isocost.schedule import report_lead_s, ticks
from isocost.telemetry.report import encode_report
from isocost.telemetry.sampler import NodeSampler, sample_all
from isocost.telemetry.scrape import TIMEOUT_S, open_session
from isocost.telemetry.uplink import Newest, Uplink

#: How much of a tick a sample may wait for slow pages.
WAIT_SHARE = 0.5


async def sample_once(config: AgentConfig) -> tuple[NodeSample, ...]:
    """One patient sample; nodes whose engine does not answer are not in it."""
    async with open_session() as session:
        samplers = [NodeSampler(node, session) for node in config.nodes]
        return await sample_all(samplers, TIMEOUT_S + 1)


async def run_agent(config: AgentConfig) -> None:
    """Sample and report until cancelled."""
    newest = Newest()
    uplink = Uplink(config.control_plane, newest, random.Random())
    async with open_session() as session, asyncio.TaskGroup() as group:
        group.create_task(uplink.run())
        samplers = [NodeSampler(node, session) for node in config.nodes]
        interval_s = config.interval_ms / 1e3
        sequence = 0
        async for now_s in ticks(interval_s, report_lead_s(config.name)):
            samples = await sample_all(samplers, interval_s * WAIT_SHARE)
            sequence += 1
            newest.put(encode_report(config.name, sequence, time.time(), now_s, samples))


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
