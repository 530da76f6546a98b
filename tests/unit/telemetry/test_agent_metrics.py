"""The agent's HTTP pages: what is known has a number, what is not has none."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from isocost.agent import Agent
from isocost.config import AgentConfig
from isocost.errors import StartError
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library
from tests.unit.telemetry.page_server import PageServer, page_server

GPUS = {
    "gpus": "a,b",
    "a.memory_total": 1000,
    "a.memory_used": 400,
    "a.ecc_uncorrected": 3,
    "a.temperature": "!3",
    "a.nvlinks": 2,
    "a.nvlink.0.active": 1,
    "a.nvlink.1.active": 0,
    "a.nvlink.1.crc_data": 7,
    "a.pcie_ms": 1,
    "b.pcie_ms": 1,
}


@pytest.fixture
async def page() -> AsyncIterator[PageServer]:
    async with page_server() as server:
        yield server


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    build_library()
    fake = FakeGpus(tmp_path, **GPUS)
    for name in ("LD_LIBRARY_PATH", "ISOCOST_FAKE_NVML", "PYTHONPATH"):
        monkeypatch.setenv(name, fake.environment[name])
    return fake


def config(page: PageServer, http: str | None, *gpus: str) -> AgentConfig:
    node = page.settings
    if gpus:
        node = node.model_copy(update={"dcgm_url": None, "gpus": gpus})
    return AgentConfig(
        name="a1", control_plane="127.0.0.1:9", http=http, interval_ms=50, nodes=(node,)
    )


@asynccontextmanager
async def running(settings: AgentConfig) -> AsyncIterator[None]:
    task = asyncio.create_task(Agent(settings).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), task.exception()


async def scrape(http: str) -> dict[tuple[str, str], float]:
    """By name and the labels' values, in the labels' order."""
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{http}/metrics") as response,
        ):
            text = await response.text()
    except aiohttp.ClientConnectorError:
        return {}
    return {
        (sample.name, " ".join(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_known_signals_have_a_number_and_the_others_only_a_state(
    page: PageServer, gpus: FakeGpus
) -> None:
    http = f"127.0.0.1:{free_port()}"
    async with running(config(page, http, "GPU-a")):

        async def read() -> dict[tuple[str, str], float] | None:
            told = await scrape(http)
            return told if ("isocost_agent_signals", "pcie_width measured") in told else None

        told = await wait_until(read, "both loops were read")
        assert told["isocost_gpu_memory_free_bytes", "GPU-a n1"] == 600
        assert told["isocost_gpu_ecc_uncorrected_total", "GPU-a n1"] == 3
        assert told["isocost_gpu_lost", "GPU-a n1"] == 0
        # A GPU of the machine that is no node's.
        assert told["isocost_gpu_temperature_celsius", "GPU-b "] == 40
        assert ("isocost_gpu_temperature_celsius", "GPU-a n1") not in told
        assert told["isocost_agent_signals", "temperature_celsius unsupported"] == 1
        assert told["isocost_gpu_nvlink_active", "GPU-a 1 n1 00000000:C1:00.0"] == 0
        assert told["isocost_gpu_nvlink_crc_data_errors_total", "GPU-a n1"] == 7
        assert told["isocost_gpu_nvlink_errors_total", "crc_data_errors GPU-a 1 n1"] == 7
        assert told["isocost_gpu_nvlink_errors_total", "replays GPU-a 0 n1"] == 0
        assert told["isocost_engine_running", "n1"] == 1
        assert ("isocost_engine_waiting", "n1") not in told
        assert told["isocost_agent_signals", "waiting absent"] == 1
        assert told["isocost_agent_connected", ""] == 0
        assert told["isocost_agent_streams_lost_total", ""] > 0
        assert told["isocost_agent_reader_starts_total", "condition"] == 1
        assert told["isocost_agent_interval_seconds_count", ""] > 0
        gpus.set({"a.xids": "31,48,31"})
        await wait_until(lambda: _is(http, "isocost_gpu_xids", "GPU-a n1 31", 2.0), "Xids")
        gpus.set({"gpus": "b"})
        await wait_until(
            lambda: _is(http, "isocost_gpu_lost", "GPU-a n1", 1.0), "the GPU is shown as lost"
        )
        await wait_until(
            lambda: _is(http, "isocost_agent_signals", "vram_free_bytes stale", 1.0), "stale"
        )

        async def gone() -> bool:
            return ("isocost_gpu_memory_free_bytes", "GPU-a n1") not in await scrape(http)

        await wait_until(gone, "its old values are shown no more")
        assert await _is(http, "isocost_gpu_lost", "GPU-a n1", 1.0)


async def test_failed_pages_are_counted(page: PageServer) -> None:
    http = f"127.0.0.1:{free_port()}"
    async with running(config(page, http)):
        await wait_until(lambda: _is(http, "isocost_engine_up", "n1", 1.0), "the engine is up")
        page.status = 503

        async def counted() -> bool:
            told = await scrape(http)
            return told["isocost_agent_scrape_failures_total", "n1 engine"] >= 5

        await wait_until(counted, "failures are counted")
        await wait_until(lambda: _is(http, "isocost_engine_up", "n1", 0.0), "it is down")


async def test_the_page_can_be_left_out(page: PageServer) -> None:
    http = f"127.0.0.1:{free_port()}"
    async with running(config(page, http)):
        await wait_until(lambda: _is(http, "isocost_engine_up", "n1", 1.0), "the engine is up")
        # Another agent beside it has none of its own.
        asked = page.asked
        async with running(config(page, None)):
            await wait_until(lambda: page.asked > asked + 10, "it samples")


async def test_an_address_that_is_taken_is_told(page: PageServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(StartError, match=f"cannot listen on {address}.*http"):
            await Agent(config(page, address)).run()


async def _is(http: str, name: str, labels: str, value: float) -> bool:
    return (await scrape(http)).get((name, labels)) == value
