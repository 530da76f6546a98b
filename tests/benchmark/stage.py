"""The processes of a benchmark: fake nodes, control planes with their agents, and gateways."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from isocost.config import BootstrapSettings
from isocost.demo.processes import Processes
from isocost.envoy.binary import find_envoy
from isocost.envoy.bootstrap import bootstrap
from isocost.fake.machine import agent_environment, agent_keys, nvml_folder
from tests.benchmark.plain_envoy import plain_bootstrap

#: The first port of each kind of process; those that are many take the following ones.
NODE_PORT, GATEWAY_PORT, ADMIN_PORT, GRPC_PORT, HTTP_PORT = 24_100, 24_200, 24_300, 24_400, 24_500
#: As in the demo: engines and agents are on machines of their own.
LOAD_NICE = 5
_ISOCOST = (sys.executable, "-m", "isocost.cli.main")
_READY_S = 60.0
_POLL_S = 0.2

#: A node as an agent's configuration names it.
AgentEntry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gateway:
    """An Envoy to be measured; ``control_plane`` is its HTTP pages, None for a plain one."""

    url: str
    control_plane: str | None = None


class Stage:
    """Starts processes and numbers their ports; all of them end with ``processes``."""

    def __init__(self, processes: Processes, folder: Path, model: str) -> None:
        self._processes = processes
        self._folder = folder
        #: The fake machine of all nodes.
        self._machine = folder / "machine"
        self._model = model
        self.gateways: list[Gateway] = []

    def start_nodes(self, name: str, *flags: str) -> None:
        command = [*_ISOCOST, "fake-node", "--name", name, "--model", self._model]
        command += ["--machine", str(self._machine), *flags]
        self._processes.start(name, command, nice=LOAD_NICE)

    def start_ours(self, policy: str, nodes: Sequence[AgentEntry], **settings: object) -> Gateway:
        """Control plane, an agent with these nodes, which were started, and an Envoy with the
        filter.
        """
        index = len(self.gateways)
        listen, http = f"127.0.0.1:{GRPC_PORT + index}", f"127.0.0.1:{HTTP_PORT + index}"
        config = {"listen": listen, "http": http, "filter": {"policy": policy}, **settings}
        self._start_daemon("control-plane", f"{index}", config)
        self._wait_for_gpus(nodes)
        agent = {
            "name": "agent",
            "control_plane": listen,
            "http": None,
            **agent_keys(self._machine),
            "nodes": [dict(node) for node in nodes],
        }
        environment = agent_environment(self._machine)
        self._start_daemon("agent", f"{index}", agent, LOAD_NICE, environment)
        return self._start_filter_envoy(policy, listen, f"http://{http}")

    def start_another(self, gateway: Gateway) -> Gateway:
        """One more Envoy of the control plane of ``gateway``."""
        index = self.gateways.index(gateway)
        listen = f"127.0.0.1:{GRPC_PORT + index}"
        return self._start_filter_envoy("another", listen, gateway.control_plane)

    def start_plain(self, policy: str, addresses: Sequence[str]) -> Gateway:
        """An Envoy with one of its own policies."""
        index = len(self.gateways)
        return self._start_envoy(
            plain_bootstrap(policy, GATEWAY_PORT + index, ADMIN_PORT + index, addresses), None
        )

    def bench(self, *flags: str) -> None:
        """Run `isocost bench`; CalledProcessError if it could not."""
        self._processes.check()
        subprocess.run([*_ISOCOST, "bench", "--model", self._model, *flags], check=True)
        self._processes.check()

    def wait_ready(self, nodes: int) -> None:
        """Return when every control plane has all nodes and every gateway answers."""
        asyncio.run(self._wait_ready(nodes))

    async def _wait_ready(self, nodes: int) -> None:
        deadline_s = time.monotonic() + _READY_S
        async with aiohttp.ClientSession() as session:
            for gateway in self.gateways:
                while not (
                    await _serving(session, gateway.control_plane, nodes)
                    and await _answers(session, gateway.url, self._model)
                ):
                    self._processes.check()
                    if time.monotonic() > deadline_s:
                        raise TimeoutError(f"{gateway.url} is not ready after {_READY_S:.0f} s")
                    await asyncio.sleep(_POLL_S)

    def _wait_for_gpus(self, nodes: Sequence[AgentEntry]) -> None:
        """An agent looks for GPUs that come later every half a minute only."""
        files = [nvml_folder(self._machine) / node["name"] for node in nodes]
        deadline_s = time.monotonic() + _READY_S
        while not all(file.exists() for file in files):
            self._processes.check()
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no GPUs of all nodes after {_READY_S:.0f} s")
            time.sleep(_POLL_S)

    def _start_daemon(
        self,
        command: str,
        name: str,
        config: Mapping[str, object],
        nice: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        path = self._folder / f"{command}-{name}.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        flags = [*_ISOCOST, command, "--config", str(path)]
        self._processes.start(f"{command}-{name}", flags, nice=nice, environment=environment)

    def _start_filter_envoy(self, name: str, control_plane: str, http_url: str | None) -> Gateway:
        index = len(self.gateways)
        settings = BootstrapSettings(
            node_id=f"{name}-{index}",
            listen=f"127.0.0.1:{GATEWAY_PORT + index}",
            admin=f"127.0.0.1:{ADMIN_PORT + index}",
            control_plane=control_plane,
        )
        return self._start_envoy(bootstrap(settings), http_url)

    def _start_envoy(self, config: Mapping[str, object], control_plane: str | None) -> Gateway:
        index = len(self.gateways)
        path = self._folder / f"envoy-{index}.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        self._processes.start(
            f"envoy-{index}",
            [
                *(str(find_envoy()), "--config-path", str(path), "--concurrency", "2"),
                *("--disable-hot-restart", "--log-level", "warning"),
            ],
            output=self._folder / f"access-{index}.log",
        )
        gateway = Gateway(f"http://127.0.0.1:{GATEWAY_PORT + index}", control_plane)
        self.gateways.append(gateway)
        return gateway


async def _serving(session: aiohttp.ClientSession, url: str | None, nodes: int) -> bool:
    if url is None:
        return True
    try:
        async with session.get(f"{url}/v1/nodes") as response:
            rows = (await response.json())["nodes"]
    except aiohttp.ClientError:
        return False
    return sum(row["state"] == "serving" for row in rows) == nodes


async def _answers(session: aiohttp.ClientSession, url: str, model: str) -> bool:
    body = {"model": model, "prompt": "hello", "max_tokens": 1}
    try:
        async with session.post(f"{url}/v1/completions", json=body) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
