"""An agent takes other nodes while it runs; the ones that are as before notice nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from isocost import reload
from isocost.agent import Agent
from isocost.config import AgentConfig
from isocost.config_source import ConfigSource
from isocost.model import EngineSample, measured
from isocost.telemetry import sampler
from isocost.telemetry.engines import detect
from isocost.telemetry.engines.page import EnginePage
from isocost.telemetry.instance import InstanceWatch
from tests.integration.harness.wait import wait_until
from tests.unit.fake.node_client import running
from tests.unit.telemetry.test_agent import ControlPlane, config


class Reloading:
    """A running agent and its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.control_plane = ControlPlane()
        self.agent: Agent

    def write(self, ports: dict[str, int], **changes: object) -> None:
        data = config(ports, self.control_plane.port).model_dump(mode="json")
        self.path.write_text(yaml.safe_dump(data | changes))

    def start(self) -> asyncio.Task[None]:
        loaded = ConfigSource(AgentConfig, self.path).load()
        self.agent = Agent(loaded.config, loaded)
        return asyncio.create_task(self.agent.run())

    async def reported(self, *names: str) -> dict[str, str]:
        """Wait until the last report is of these nodes; their instances by name."""
        metrics = self.agent._metrics
        await wait_until(lambda: [item.node.name for item in metrics.samples] == [*names], "them")
        return {item.node.name: item.node.instance_id for item in metrics.samples}


@pytest.fixture
async def reloading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reloading]:
    monkeypatch.setattr(reload, "LOOK_S", 0.01)
    monkeypatch.setattr(reload, "STEADY_S", 0.02)
    made = Reloading(tmp_path / "agent.yaml")
    await made.control_plane.start()
    yield made
    await made.control_plane.stop()


async def test_nodes_come_change_and_go_without_a_restart_of_the_others(
    reloading: Reloading,
) -> None:
    async with AsyncExitStack() as stack:
        one, two, three = [(await stack.enter_async_context(running())).port for _ in range(3)]
        reloading.write({"a": one, "b": two})
        task = reloading.start()
        instances = await reloading.reported("a", "b")
        kept, changed = reloading.agent._nodes.samplers
        reports = reloading.agent._uplink.reports_total

        reloading.write({"a": one, "c": three})
        await reloading.reported("a", "c")
        assert reloading.agent._nodes.samplers[0] is kept
        # The gone one's connection is let go of.
        await wait_until(lambda: changed not in reloading.agent._nodes._gone, "it is")
        assert len(reloading.agent._pages._clients) == 4

        reloading.write({"a": one, "b": two, "c": three}, interval_ms=40)
        assert (await reloading.reported("a", "b", "c"))["a"] == instances["a"]
        assert reloading.agent._uplink.lost_total == 0
        assert reloading.agent._uplink.reports_total > reports
        task.cancel()
        await asyncio.wait([task])


def test_a_node_with_other_settings_is_the_same_instance() -> None:
    """Also where the page does not tell when the engine started."""
    wall_s = iter((1000.0, 2000.0, 3000.0))
    (settings,) = config({"a": 1}).nodes
    page = EnginePage(EngineSample(prompt_tokens_total=measured(5.0)))
    first = InstanceWatch(settings, lambda: next(wall_s))
    first.see(page)
    assert first.node is not None
    second = InstanceWatch(settings.model_copy(update={"rack": "r2"}), lambda: next(wall_s))
    second.continue_from(first)
    assert second.node is None
    assert second.see(replace(page)) is False
    assert second.node == replace(first.node, rack="r2")
    # And what shows a restart is remembered.
    assert second.see(EnginePage(EngineSample(prompt_tokens_total=measured(1.0))))


async def test_a_changed_node_goes_on_under_its_other_settings(
    reloading: Reloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_start(text: str) -> EnginePage:
        return replace(detect.read_engine_page(text), started_unix_s=None)

    monkeypatch.setattr(
        sampler,
        "detect",
        SimpleNamespace(read_engine_page=without_start, read_latencies=detect.read_latencies),
    )
    async with running() as node:
        reloading.write({"a": node.port})
        task = reloading.start()
        await reloading.reported("a")
        # What the agent found itself, long ago.
        reloading.agent._nodes.samplers[0]._instance._epoch = 5
        data = yaml.safe_load(reloading.path.read_text())
        data["nodes"][0]["rack"] = "r2"
        reloading.path.write_text(yaml.safe_dump(data))
        await wait_until(
            lambda: [item.node.rack for item in reloading.agent._metrics.samples] == ["r2"],
            "it is in the other rack",
        )
        assert await reloading.reported("a") == {"a": "a@5"}
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("changes", [{"name": "other"}, {"http": "127.0.0.1:1"}, {"nodes": []}])
async def test_what_an_agent_cannot_take_changes_nothing(
    reloading: Reloading, changes: dict[str, object]
) -> None:
    async with running() as node:
        reloading.write({"a": node.port})
        task = reloading.start()
        await reloading.reported("a")
        reloading.write({"a": node.port, "b": 9}, **changes)
        await wait_until(lambda: reloading.agent.reload.refused, "it is refused")
        refused = reloading.agent.reload.refused
        assert refused is not None
        assert [error.field for error in refused.error.fields] == [*changes]
        assert len(reloading.agent._nodes.samplers) == 1
        task.cancel()
        await asyncio.wait([task])


async def test_the_first_node_with_gpus_starts_the_reading_of_gpus(reloading: Reloading) -> None:
    async with running() as node:
        reloading.write({"a": node.port})
        task = reloading.start()
        await reloading.reported("a")
        assert reloading.agent._machine.nvml is None
        data = yaml.safe_load(reloading.path.read_text())
        data["nodes"][0] |= {"dcgm_url": None, "gpus": ["GPU-1"]}
        reloading.path.write_text(yaml.safe_dump(data))
        await wait_until(lambda: reloading.agent._machine.nvml, "it is needed")
        nvml = reloading.agent._machine.nvml
        assert nvml is not None
        await wait_until(lambda: nvml.load.starts, "its reader starts")
        task.cancel()
        await asyncio.wait([task])


async def test_consul_is_told_of_the_nodes_of_now(reloading: Reloading) -> None:
    async with running() as node:
        consul = {"address": "http://127.0.0.1:9"}
        reloading.write({"a": node.port, "b": 9}, consul=consul)
        task = reloading.start()
        registration = reloading.agent._registration
        assert registration is not None
        reloading.write({"a": node.port}, consul=consul)
        await wait_until(lambda: registration._names == {"a"}, "it follows")
        task.cancel()
        await asyncio.wait([task])
