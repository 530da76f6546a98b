"""Daemons and signals: a stop ends the streams with a status, soon, and without a traceback."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from functools import partial

import aiohttp
import grpc.aio
import pytest
from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryRequest

from isocost import collector
from isocost.config import ControlPlaneConfig
from isocost.daemon import ControlPlane
from isocost.discovery import telemetry_service
from isocost.open_streams import STOPPING
from isocost.push import ads, observation_service
from isocost.push.type_urls import CLUSTER
from isocost.push.variant import WHOLE
from tests.integration.harness.announcer import Announcer
from tests.integration.harness.fleet import Fleet
from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process
from tests.integration.harness.wait import wait_until
from tests.unit.fleet_builder import node

#: One stop in seven showed it.
STOPS = 20
ADS = f"/{ads.SERVICE}/{WHOLE.method}"
REPORTS = f"/{telemetry_service.SERVICE}/Report", f"/{observation_service.SERVICE}/Report"


@contextlib.asynccontextmanager
async def open_streams(port: int) -> AsyncIterator[list[grpc.aio.Call]]:
    """Three clients of ADS that have had an answer, an agent and an Envoy's feed."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        streams: list[grpc.aio.Call] = []
        for _ in range(3):
            stream = channel.stream_stream(ADS)()
            await stream.write(bytes(DiscoveryRequest(type_url=CLUSTER)))
            await stream.read()
            streams.append(stream)
        for method in REPORTS:
            stream = channel.stream_unary(method)()
            await stream.wait_for_connection()
            streams.append(stream)
        yield streams


async def test_streams_of_a_control_plane_that_stops_end_with_a_status_and_no_error(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(collector, "serve_from_here", lambda: None)
    for _ in range(STOPS):
        assert await ends_of_streams() == {(grpc.StatusCode.UNAVAILABLE, STOPPING)}
    assert [line for line in caplog.messages if "xception" in line] == []
    assert "Traceback" not in capfd.readouterr().err


async def ends_of_streams() -> set[tuple[grpc.StatusCode, str]]:
    """How the streams of a control plane ended that was stopped."""
    port, stop = free_port(), asyncio.Event()
    config = ControlPlaneConfig(
        listen=f"127.0.0.1:{port}", http=f"127.0.0.1:{free_port()}", tick_ms=20
    )
    control_plane = ControlPlane(config)
    running = asyncio.create_task(control_plane.run(stop))
    async with open_streams(port) as streams:
        readers = control_plane._open_streams._readers
        await wait_until(lambda: len(readers) == len(streams), "all streams are there")
        stop.set()
        await asyncio.wait_for(running, 2)
        return {(await stream.code(), await stream.details()) for stream in streams}


async def test_a_daemon_reads_its_file_on_sighup_and_stops_within_two_seconds(
    fleet: Fleet,
) -> None:
    fleet.plan_nodes(1)
    control_plane, agent = fleet.start_control_plane(), fleet.start_agent()
    fleet.start_gateway()
    await wait_until(lambda: "reports to" in agent.messages(), "the agent reports")
    async with Announcer(fleet.grpc_port, [node("a", address="127.0.0.1:1")]):
        await wait_until(lambda: subscribed(fleet), "Envoy has a table")
        for process in (agent, control_plane):
            process.signal(signal.SIGHUP)
            await wait_until(partial(says_so, process), "it reads its file")
        await stopped(agent, signal.SIGINT)
        await stopped(control_plane, signal.SIGTERM)


def says_so(process: Process) -> bool:
    process.require_running()
    return "says what is in force already" in process.messages()


async def stopped(process: Process, number: signal.Signals) -> None:
    process.signal(number)
    await wait_until(lambda: not process.running, f"{process.name} ends", 2)
    assert (process.returncode, "Traceback" in process.messages()) == (0, False)


async def subscribed(fleet: Fleet) -> bool:
    try:
        clients = (await fleet.status())["push"]["clients"]
    except aiohttp.ClientError:
        return False
    return any(client["types"].get("Table", {}).get("acked") for client in clients)
