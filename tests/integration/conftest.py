"""Fixtures of the integration tests: everything they start ends with the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.harness.ads import AdsServer
from tests.integration.harness.backend import Answer, Backend, ok
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.envoy import Envoy
from tests.integration.harness.fleet import Fleet
from tests.integration.harness.process import Process, isocost_command
from tests.integration.harness.stand_in_fleet import StandInFleet

HERE = Path(__file__).parent

StartEnvoy = Callable[..., Envoy]
StartBackend = Callable[..., Awaitable[Backend]]
StartIsocost = Callable[..., Process]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the machine to itself: every test here that does not say otherwise."""
    for item in items:
        if item.path.is_relative_to(HERE) and not item.get_closest_marker("side_by_side"):
            item.add_marker(pytest.mark.alone)


@pytest.fixture
def start_envoy(tmp_path: Path) -> Iterator[StartEnvoy]:
    """Start a real Envoy from a bootstrap: ``start_envoy(data, concurrency=1)``."""
    started: list[Envoy] = []

    def start(data: dict[str, Any], concurrency: int = 1) -> Envoy:
        folder = tmp_path / f"envoy-{len(started)}"
        folder.mkdir()
        started.append(Envoy(data, folder, concurrency))
        return started[-1]

    yield start
    for envoy in started:
        envoy.stop()


@pytest.fixture
def start_isocost(tmp_path: Path) -> Iterator[StartIsocost]:
    """Start `isocost ...` as a process of its own: ``start_isocost("agent", "--config", ...)``."""
    started: list[Process] = []

    def start(*arguments: str, environment: Mapping[str, str] | None = None) -> Process:
        name = f"{arguments[0]}-{len(started)}"
        started.append(Process(name, isocost_command(*arguments), tmp_path, environment))
        return started[-1]

    yield start
    for process in reversed(started):
        process.stop()


@pytest.fixture
async def start_backend() -> AsyncIterator[StartBackend]:
    """Start a recording engine: ``await start_backend("node-1", answer=status(503))``."""
    started: list[Backend] = []

    async def start(name: str, rack: str = "rack-1", answer: Answer = ok) -> Backend:
        started.append(await Backend(name, rack, answer).start())
        return started[-1]

    yield start
    for backend in started:
        await backend.stop()


@pytest.fixture
async def ads() -> AsyncIterator[AdsServer]:
    """A running ADS server without a word published."""
    server = await AdsServer().start()
    yield server
    await server.stop()


@pytest.fixture
def consul_server(tmp_path: Path) -> Iterator[ConsulServer]:
    """A real Consul that is not started yet."""
    server = ConsulServer(tmp_path / "consul")
    yield server
    server.stop()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that opens a connection for each request, so that all workers get some."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session


@pytest.fixture
def fleet(
    start_isocost: StartIsocost,
    start_envoy: StartEnvoy,
    client: aiohttp.ClientSession,
    tmp_path: Path,
) -> Fleet:
    """A whole installation, nothing of it started yet."""
    return Fleet(start_isocost, start_envoy, client, tmp_path)


@pytest.fixture
def stand_in_fleet(
    start_isocost: StartIsocost,
    start_envoy: StartEnvoy,
    client: aiohttp.ClientSession,
    tmp_path: Path,
) -> StandInFleet:
    """Control plane and Envoy, nothing of it started yet; the engines are the test's backends."""
    return StandInFleet(start_isocost, start_envoy, client, tmp_path)
