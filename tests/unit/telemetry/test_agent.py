"""The agent whole: fake nodes on one side, a registry on the other."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

import grpc
import pytest
import yaml

from isocost.agent import Agent, sample_once
from isocost.cli import agent as command
from isocost.config import AgentConfig, DiscoverySettings
from isocost.config_file import parse
from isocost.discovery.registry import Registry
from isocost.discovery.telemetry_service import TelemetryService
from isocost.discovery.view import FleetView
from isocost.errors import ConfigError
from isocost.model import NodeSample
from tests.unit.fake.node_client import NodeClient, running
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library
from tests.unit.telemetry.page_server import page_server

DEADLINE_S = 10.0
#: As JSON.
ABSENT, UNSUPPORTED = {"state": "absent"}, {"state": "unsupported"}


class ControlPlane:
    """A registry behind a real gRPC server; it can go away and come back on its port."""

    def __init__(self) -> None:
        self.port = 0
        self.registry = Registry(DiscoverySettings(), time.monotonic())
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self.registry = Registry(DiscoverySettings(), time.monotonic())
        self._server = grpc.aio.server()
        TelemetryService(self.registry).add_to(self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def until(self, condition: Callable[[FleetView], bool]) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not condition(self.registry.view(time.monotonic())):
            assert time.monotonic() < end_s, self.registry.view(time.monotonic())
            await asyncio.sleep(0.01)


@pytest.fixture
async def control_plane() -> AsyncIterator[ControlPlane]:
    plane = ControlPlane()
    await plane.start()
    yield plane
    await plane.stop()


def config(nodes: dict[str, int], control_plane_port: int = 9) -> AgentConfig:
    entries = [
        {
            "name": name,
            "address": f"127.0.0.1:{port}",
            "rack": "r1",
            "host": "h1",
            "gpu_kind": "H100",
            "models": [{"name": "m", "kv_bytes_per_token": 131_072}],
            "metrics_url": f"http://127.0.0.1:{port}/metrics",
            "dcgm_url": "http://127.0.0.1:9/",
        }
        for name, port in nodes.items()
    ]
    data = {
        "name": "a1",
        "control_plane": f"127.0.0.1:{control_plane_port}",
        "http": None,
        "interval_ms": 50,
        "nodes": entries,
    }
    return parse(AgentConfig, data, "test")


@asynccontextmanager
async def agent(settings: AgentConfig) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(Agent(settings).run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_nodes_arrive_with_their_signals_and_follow_them(
    control_plane: ControlPlane,
) -> None:
    async with AsyncExitStack() as stack:
        one: NodeClient = await stack.enter_async_context(running())
        two: NodeClient = await stack.enter_async_context(running())
        settings = config({"n2": two.port, "n1": one.port}, control_plane.port)
        await stack.enter_async_context(agent(settings))
        await control_plane.until(lambda view: [item.name for item in view.nodes] == ["n1", "n2"])
        await one.post("/fake/telemetry", {"kv_usage": 0.75, "waiting": "absent"})
        await control_plane.until(lambda view: _sample_of(view, "n1").engine.kv_usage.value == 0.75)
        sample = _sample_of(control_plane.registry.view(time.monotonic()), "n1")
        assert sample.engine_up and sample.engine.running.value == 0.0
        assert sample.engine.waiting.state.name == "ABSENT"
        assert sample.node.models[0].kv_bytes_per_token == 131_072


async def test_a_node_is_announced_when_its_engine_comes_up(
    control_plane: ControlPlane,
) -> None:
    async with page_server() as page:
        page.status = 503
        settings = AgentConfig(
            name="a1",
            control_plane=f"127.0.0.1:{control_plane.port}",
            http=None,
            interval_ms=50,
            nodes=(page.settings,),
        )
        async with agent(settings):
            asked = page.asked
            await control_plane.until(lambda _: page.asked >= asked + 5)
            assert control_plane.registry.view(time.monotonic()).nodes == ()
            page.status = 200
            await control_plane.until(lambda view: len(view.nodes) == 1)
            page.status = 503
            await control_plane.until(lambda view: not _sample_of(view, "n1").engine_up)


async def test_a_restarted_control_plane_has_the_nodes_back(
    control_plane: ControlPlane,
) -> None:
    async with running() as node, agent(config({"n1": node.port}, control_plane.port)):
        await control_plane.until(lambda view: len(view.nodes) == 1)
        await control_plane.stop()
        await control_plane.start()
        assert control_plane.registry.view(time.monotonic()).nodes == ()
        await control_plane.until(lambda view: len(view.nodes) == 1)


async def test_a_restarted_engine_replaces_its_predecessor(
    control_plane: ControlPlane,
) -> None:
    async with page_server() as page:
        settings = AgentConfig(
            name="a1",
            control_plane=f"127.0.0.1:{control_plane.port}",
            http=None,
            interval_ms=50,
            nodes=(page.settings,),
        )
        async with agent(settings):
            await control_plane.until(lambda view: len(view.nodes) == 1)
            page.metrics = page.metrics.replace("1000.5", "2000.5")
            await control_plane.until(
                lambda view: [item.instance_id for item in view.nodes] == ["n1@2000"]
            )


async def test_one_sample_names_only_nodes_whose_engine_answers() -> None:
    async with running() as node:
        once = await sample_once(config({"up": node.port, "down": 9}))
    assert [sample.node.name for sample in once.nodes] == ["up"]


def _sample_of(view: FleetView, name: str) -> NodeSample:
    (sample,) = [item for item in view.samples if item is not None and item.node.name == name]
    assert sample is not None
    return sample


def written(path: Path) -> Path:
    file = path / "agent.yaml"
    data = config({"down": 9}).model_dump(mode="json")
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    return file


def test_once_answers_no_when_an_engine_is_silent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    assert command.run(Namespace(config=file, once=True, json=True)) == 1
    told = yaml.safe_load(capsys.readouterr().out)
    assert abs(told.pop("wall_unix_s") - time.time()) < 60.0
    assert told == {"agent": "a1", "nodes": [], "silent": ["down"], "unread": [], "gpus": []}


def test_json_without_once_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--json"):
        command.run(Namespace(config=written(tmp_path), once=False, json=True))


async def test_a_nodes_own_gpus_are_read_through_nvml(
    control_plane: ControlPlane,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    build_library()
    gpus = FakeGpus(tmp_path, **{"gpus": "a,b,c", "b.memory_total": 1000, "b.memory_used": 400})
    for name in ("LD_LIBRARY_PATH", "ISOCOST_FAKE_NVML", "PYTHONPATH"):
        monkeypatch.setenv(name, gpus.environment[name])
    async with running() as node:
        settings = config({"n1": node.port}, control_plane.port).model_dump(mode="json")
        settings["nodes"][0] |= {
            "dcgm_url": None,
            "gpus": ["GPU-b", "GPU-gone"],
            "gpu_count": 2,
        }
        parsed = parse(AgentConfig, settings, "test")
        (once,) = (await sample_once(parsed)).nodes
        assert [gpu.uuid for gpu in once.gpus] == ["GPU-b", "GPU-gone"]
        assert once.gpus[0].vram_free_bytes.value == 600
        assert not once.gpus[1].vram_free_bytes.known
        assert (once.gpus[0].lost, once.gpus[1].lost) == (False, True)
        assert "n1: NVML does not list GPU-gone" in caplog.text
        async with agent(parsed):
            await control_plane.until(lambda view: len(view.nodes) == 1 and _free(view) == 600)
            gpus.set({"b.memory_used": 900})
            await control_plane.until(lambda view: _free(view) == 100)


def _free(view: FleetView) -> float:
    gpus = _sample_of(view, "n1").gpus
    return gpus[0].vram_free_bytes.value if gpus else -1.0


@pytest.mark.parametrize("more", [{"dcgm_url": None}, {"gpus": ["GPU-1"]}, {"gpus": ["0"]}])
def test_a_node_has_either_an_exporters_page_or_gpus(more: dict[str, object]) -> None:
    settings = config({"n1": 9}).model_dump(mode="json")
    settings["nodes"][0] |= more
    with pytest.raises(ConfigError, match="gpus"):
        parse(AgentConfig, settings, "test")


@pytest.fixture
def fake_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_library()
    state = {
        "gpus": "a,b",
        "a.memory_total": 80_000_000_000,
        "a.memory_used": 60_000_000_000,
        "a.memory_reserved": 500_000_000,
        "a.pcie_width": 8,
        "a.ecc_uncorrected": 2,
        "a.clocks_event_reasons": 64,
        "a.temperature": "!3",
        "a.nvlinks": 2,
        "a.nvlink.0.active": 1,
        "a.nvlink.1.active": 0,
        "a.nvlink.1.remote": "0000:8b:00.0",
        "a.pcie_ms": 1,
        "b.pcie_ms": 1,
        "b.memory_total": 40_000_000_000,
        "b.utilization": 50,
        "b.ecc_uncorrected": "!999",
    }
    fake = FakeGpus(tmp_path, **state)
    for name in ("LD_LIBRARY_PATH", "ISOCOST_FAKE_NVML", "PYTHONPATH"):
        monkeypatch.setenv(name, fake.environment[name])


class Once(Protocol):
    async def __call__(self, as_json: bool, *gpus: str, up: bool = True) -> int: ...


@pytest.fixture
async def once(tmp_path: Path) -> AsyncIterator[Once]:
    """`isocost agent --once`, of a node with these GPUs, or with GPU-a."""
    async with page_server() as page:
        node = page.settings.model_dump(mode="json", exclude_defaults=True)
        file = tmp_path / "agent.yaml"

        async def run(as_json: bool, *gpus: str, up: bool = True) -> int:
            page.status = 200 if up else 503
            uuids = list(gpus) or ["GPU-a"]
            settings = node | {"dcgm_url": None, "gpus": uuids, "gpu_count": len(uuids)}
            file.write_text(yaml.safe_dump({"name": "a1", "nodes": [settings]}))
            arguments = Namespace(config=file, once=True, json=as_json)
            return await asyncio.to_thread(command.run, arguments)

        yield run


@pytest.mark.usefixtures("fake_gpus")
async def test_once_prints_every_signal_with_its_state(
    once: Once, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await once(True) == 0
    told = yaml.safe_load(capsys.readouterr().out)
    (node,) = told["nodes"]
    assert node["engine"]["running"]["value"] == 1 and node["engine"]["waiting"] == ABSENT
    health = node["gpus"][0]["health"]
    assert health["pcie_width"]["state"] == "measured" and health["pcie_width"]["value"] == 8
    assert health["temperature_celsius"] == UNSUPPORTED
    one, other = told["gpus"]
    assert (one["uuid"], other["uuid"]) == ("GPU-a", "GPU-b")
    assert one["memory_reserved_bytes"]["value"] == 500_000_000
    assert one["condition"]["clocks_event_reasons"]["value"] == 64
    assert other["condition"]["ecc_uncorrected"] == ABSENT
    down = one["condition"]["links"][1]
    assert down["active"]["value"] == 0 and down["remote_pci_bus_id"] == "0000:8b:00.0"


@pytest.mark.usefixtures("fake_gpus")
async def test_once_prints_a_table_of_nodes_and_one_of_gpus(
    once: Once,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await once(False) == 0
    heading, node, _, gpu_heading, gpu, other = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["NODE", "INSTANCE", "RUNNING"]
    assert node.split()[:5] == ["n1", "n1@1000", "1", "absent", "absent"]
    cells = dict(zip(gpu_heading.split(), gpu.replace("gen 5 x8", "gen5x8").split(), strict=True))
    assert cells | {"PCIE_MB/S": "", "WATTS": ""} == {
        "GPU": "GPU-a",
        "NODE": "n1",
        "USED_GB": "60",
        "RESERVED_GB": "0.5",
        "TOTAL_GB": "80",
        "USE": "0",
        "PCIE": "gen5x8",
        "PCIE_MB/S": "",
        "NVLINKS": "1/2",
        "CELSIUS": "unsupported",
        "WATTS": "",
        "ECC": "2",
        "REMAP": "0",
        "THROTTLE": "0x40",
        "PROCESSES": "0",
        "XIDS": "-",
    }
    assert other.split()[:2] == ["GPU-b", "-"] and "absent" in other


def node_cells(lines: list[str]) -> dict[str, str]:
    return dict(zip(lines[0].split(), lines[1].split(), strict=True))


@pytest.mark.usefixtures("fake_gpus")
async def test_once_shows_a_nodes_gpus_together(
    once: Once, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await once(False, "GPU-a", "GPU-b") == 0
    cells = node_cells(capsys.readouterr().out.splitlines())
    assert (cells["GPUS"], cells["FREE_GB"], cells["GPU_USE"]) == ("2", "59.5", "0.25")


@pytest.mark.usefixtures("fake_gpus")
async def test_once_answers_no_when_a_configured_gpu_cannot_be_read(
    once: Once, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await once(False, "GPU-a", "GPU-gone") == 1
    lines = capsys.readouterr().out.splitlines()
    cells = node_cells(lines)
    assert (cells["GPUS"], cells["FREE_GB"], cells["GPU_USE"]) == ("1/2", "absent", "absent")
    assert lines[-1] == "n1: GPU-gone: not read"
    assert await once(True, "GPU-a", "GPU-gone") == 1
    told = yaml.safe_load(capsys.readouterr().out)
    assert told["unread"] == [{"node": "n1", "gpu": "GPU-gone"}] and told["silent"] == []


@pytest.mark.usefixtures("fake_gpus")
async def test_once_shows_a_silent_engines_node_and_its_gpus(
    once: Once, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await once(False, "GPU-b", "GPU-gone", up=False) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["n1", "down"] + ["-"] * 8
    assert [line.split()[:2] for line in lines[4:6]] == [["GPU-a", "-"], ["GPU-b", "n1"]]
    assert lines[6:] == ["n1: its engine does not answer", "n1: GPU-gone: not read"]


@pytest.mark.parametrize(
    ("total", "code"), [("!3", 0), ("!999", 1)], ids=["no memory of its own", "an error"]
)
async def test_a_gpu_without_memory_of_its_own_counts_as_read(
    once: Once,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    total: str,
    code: int,
) -> None:
    build_library()
    fake = FakeGpus(tmp_path, **{"a.memory_total": total, "a.pcie_ms": 1})
    for name in ("LD_LIBRARY_PATH", "ISOCOST_FAKE_NVML", "PYTHONPATH"):
        monkeypatch.setenv(name, fake.environment[name])
    assert await once(False) == code
    cells = node_cells(capsys.readouterr().out.splitlines())
    expected = ("1", "unsupported") if code == 0 else ("0/1", "absent")
    assert (cells["GPUS"], cells["FREE_GB"]) == expected
