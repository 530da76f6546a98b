"""A whole installation in processes: fake nodes, one agent, the control plane and Envoy."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from isocost.fake.hardware import Hardware
from isocost.fake.machine import agent_environment, agent_keys, node_keys
from isocost.fake.models import model_named
from isocost.fake.node_machine import install
from isocost.fake.settings import FakeNodeSettings
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process
from tests.integration.harness.wait import wait_until

#: Processes that start together on a busy machine; half of it was seen.
START_S = 30.0
MODEL = "llama-3.1-8b"
#: What every fake node is, unless a test says otherwise.
HARDWARE = Hardware("H100", 1, model_named(MODEL))


@dataclass(frozen=True)
class FakeNode:
    """A fake node, running or not, and where it answers; models are served by their own names."""

    name: str
    rack: str
    host: str
    port: int
    hardware: Hardware = HARDWARE

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self, machine: Path) -> FakeNodeSettings:
        first, *others = (engine.model.name for engine in self.hardware.engines)
        return FakeNodeSettings(
            self.name,
            "127.0.0.1",
            self.port,
            self.hardware,
            first,
            machine=machine,
            served_beside=tuple(others),
        )

    @property
    def agent_entry(self) -> dict[str, object]:
        """As an agent's configuration has it."""
        return {
            "name": self.name,
            "address": f"127.0.0.1:{self.port}",
            "rack": self.rack,
            "host": self.host,
            "gpu_kind": self.hardware.kind,
            "gpu_count": self.hardware.count,
            "models": [
                {
                    "name": engine.model.name,
                    "kv_bytes_per_token": engine.model.kv_bytes_per_token,
                }
                for engine in self.hardware.engines
            ],
            **node_keys(self.name, self.url, gpu_count=self.hardware.count),
        }


class Fleet:
    """Started part by part, so that tests can choose the order. ``dispersion`` is the filter's cap
    on bursts, ``model`` the one that short completions ask for; ``consul``, if there is one, is
    where agents register and what the control plane follows; ``agent_http`` is where the agent
    shows its metrics, None = nowhere.
    """

    dispersion = True
    consul: str | None = None
    agent_http: str | None = None
    model = MODEL

    def __init__(
        self,
        start_isocost: Callable[..., Process],
        start_envoy: Callable[..., Envoy],
        session: aiohttp.ClientSession,
        folder: Path,
    ) -> None:
        self._start_isocost = start_isocost
        self._start_envoy = start_envoy
        self._folder = folder
        #: The fake machine that all nodes are part of.
        self.machine = folder / "machine"
        self.agent_config = folder / "agent.yaml"
        self.session = session
        self.grpc_port = free_port()
        self.http_port = free_port()
        self.nodes: list[FakeNode] = []
        #: The fake nodes' processes by name.
        self.processes: dict[str, Process] = {}
        self.envoy: Envoy
        self.control_plane: Process
        self.agent: Process

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    def plan_nodes(self, count: int) -> None:
        """Give the nodes their names, places and ports: half of them in each of two racks."""
        for index in range(count):
            rack = f"rack-{index * 2 // count + 1}"
            host = f"host-{index // 2 + 1}"
            node = FakeNode(f"node-{index + 1}", rack, host, free_port())
            install(node.settings(self.machine))
            self.nodes.append(node)

    def start_node(self, node: FakeNode, *flags: str) -> Process:
        hardware = node.hardware
        models = [flag for engine in hardware.engines for flag in ("--model", engine.model.name)]
        self.processes[node.name] = self._start_isocost(
            *("fake-node", "--name", node.name, "--listen", f"127.0.0.1:{node.port}"),
            *("--gpu-kind", hardware.kind, "--gpu-count", str(hardware.count), *models),
            *("--machine", str(self.machine), *flags),
        )
        return self.processes[node.name]

    def start_agent(self) -> Process:
        self.agent = self.start_agent_of("agent-1", self.nodes, self.agent_config)
        return self.agent

    def start_agent_of(self, name: str, nodes: Iterable[FakeNode], config_file: Path) -> Process:
        config = {
            "name": name,
            "http": self.agent_http,
            "control_plane": f"127.0.0.1:{self.grpc_port}",
            **agent_keys(self.machine),
            **self._consul_keys(),
            "nodes": [node.agent_entry for node in nodes],
        }
        config_file.write_text(yaml.safe_dump(config))
        flags = ("--config", str(config_file))
        environment = agent_environment(self.machine)
        return self._start_isocost("agent", *flags, environment=environment)

    def start_control_plane(self, policy: str = "weighted_random") -> Process:
        path = self._folder / "filter.yaml"
        config = {"filter": {"dispersion": self.dispersion}, "discovery": self._consul_keys()}
        path.write_text(yaml.safe_dump(config))
        self.control_plane = self._start_isocost(
            "control-plane",
            "--config",
            str(path),
            "--listen",
            f"127.0.0.1:{self.grpc_port}",
            "--http",
            f"127.0.0.1:{self.http_port}",
            "--policy",
            policy,
            "--state-dir",
            str(self._folder / "state"),
        )
        return self.control_plane

    def start_gateway(self, concurrency: int = 2) -> Envoy:
        self.envoy = self._start_envoy(local_bootstrap(self.grpc_port), concurrency)
        return self.envoy

    def _consul_keys(self) -> dict[str, object]:
        return {} if self.consul is None else {"consul": {"address": self.consul}}

    async def start(self, nodes: int, policy: str = "weighted_random", *flags: str) -> None:
        """Start everything and return when every node is picked from."""
        self.plan_nodes(nodes)
        await self.start_planned(policy, *flags)

    async def start_planned(self, policy: str, *flags: str) -> None:
        """The same with the nodes as they are planned."""
        nodes = len(self.nodes)
        self.start_control_plane(policy)
        for node in self.nodes:
            self.start_node(node, *flags)
        self.start_agent()
        self.start_gateway()
        await self.envoy.wait_live()
        await wait_until(lambda: self.serving(nodes), f"{nodes} nodes serve", START_S)
        await wait_until(self._both_workers_pick, "the filters pick", START_S)

    async def serving(self, count: int) -> bool:
        try:
            rows = await self.node_rows()
        except aiohttp.ClientError:
            return False
        return sum(row["state"] == "serving" for row in rows) == count

    async def _both_workers_pick(self, envoy: Envoy | None = None) -> bool:
        """A burst over new connections, all of it decided by a table that has every node."""
        envoy = envoy or self.envoy
        before = len(envoy.access_log())
        # At the start a worker can have the table before it has the cluster's nodes.
        if any(await self._answers(20, envoy=envoy)):
            return False
        entries = (await envoy.logged(before + 20))[before:]
        return all("reason=picked" in entry["decision"] for entry in entries)

    async def picks_from(self, version: int, envoy: Envoy | None = None) -> bool:
        """A burst, every request of which was picked from that table or a later one."""
        envoy = envoy or self.envoy
        before = len(envoy.access_log())
        await self.complete(20, envoy=envoy)
        entries = (await envoy.logged(before + 20))[before:]
        return all(table_of(entry) >= version for entry in entries)

    async def status(self) -> dict[str, Any]:
        async with self.session.get(f"{self.http}/v1/status") as response:
            return dict(await response.json())

    async def node_rows(self) -> list[dict[str, Any]]:
        async with self.session.get(f"{self.http}/v1/nodes") as response:
            return list((await response.json())["nodes"])

    async def override(self, name: str, **value: object) -> None:
        """Set by hand what ``value`` says; nothing clears it."""
        url = f"{self.http}/v1/nodes/{name}/override"
        method = "PUT" if value else "DELETE"
        async with self.session.request(method, url, json=value or None) as response:
            assert response.status == 200, await response.text()

    async def next_table(self) -> int:
        """The version of the first table that is built after this call."""
        version = (await self.status())["table_version"]

        async def newer() -> int | None:
            found = int((await self.status())["table_version"])
            return found if found > version else None

        return await wait_until(newer, "a table")

    async def complete(
        self,
        count: int,
        concurrency: int = 32,
        max_tokens: int = 1,
        *,
        envoy: Envoy | None = None,
    ) -> None:
        """Send that many short completions through Envoy; every one must succeed."""
        errors = await self._answers(count, concurrency, max_tokens, envoy=envoy)
        assert not any(errors), next(filter(None, errors))

    async def _answers(
        self,
        count: int,
        concurrency: int = 32,
        max_tokens: int = 1,
        *,
        envoy: Envoy | None = None,
    ) -> list[str]:
        """Of that many short completions the error's text, empty where there is none."""
        url = f"{(envoy or self.envoy).url}/v1/completions"
        body = {"model": self.model, "prompt": "hello", "max_tokens": max_tokens}
        left = iter(range(count))
        errors = []

        async def worker() -> None:
            for _ in left:
                async with self.session.post(url, json=body) as response:
                    text = await response.text()
                    errors.append("" if response.status == 200 else text or str(response.status))

        await asyncio.gather(*(worker() for _ in range(concurrency)))
        return errors


def decision_fields(entry: dict[str, Any]) -> dict[str, str]:
    """The filter's decision in an access log entry."""
    return dict(pair.split("=", 1) for pair in entry["decision"].split())


def table_of(entry: dict[str, Any]) -> int:
    return int(decision_fields(entry).get("table", 0))


def requests_per_node(entries: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(entry["node"] for entry in entries)


async def order(session: aiohttp.ClientSession, node: FakeNode, **signals: object) -> None:
    """Fix signals of a fake node: ``order(session, node, free_vram_fraction=0.1)``."""
    async with session.post(f"{node.url}/fake/telemetry", data=json.dumps(signals)) as response:
        assert response.status == 200, await response.text()


async def break_node(
    session: aiohttp.ClientSession, node: FakeNode, fault: str, **more: object
) -> None:
    """Order a fault: ``break_node(session, node, "status", status=500)``."""
    data = json.dumps({"fault": fault, **more})
    async with session.post(f"{node.url}/fake/faults", data=data) as response:
        assert response.status == 200, await response.text()


async def heal_node(session: aiohttp.ClientSession, node: FakeNode) -> None:
    """End every fault of a fake node."""
    async with session.delete(f"{node.url}/fake/faults") as response:
        assert response.status == 200, await response.text()
