"""A real control plane and real Envoys between engines and an agent that live in the test."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import yaml

from tests.integration.harness.announcer import Announcer
from tests.integration.harness.backend import Backend
from tests.integration.harness.connection import Connection
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.fleet import START_S, Fleet
from tests.integration.harness.gateway import wait_for_members
from tests.integration.harness.process import Process
from tests.integration.harness.wait import wait_until


class StandInFleet(Fleet):
    """``wasm`` is another filter than the shipped one, for Envoys and control plane alike;
    ``gateways`` is how many Envoys there are, ``workers`` how many each of them has.
    """

    wasm = ""
    gateways = 1
    workers = 2
    announcer: Announcer

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._connections: list[Connection] = []
        #: ``envoy`` is the first of them.
        self.envoys: list[Envoy] = []

    async def connect(self, envoy: Envoy | None = None) -> Connection:
        """A client's connection to Envoy; whatever became of it, it ends with the fleet."""
        self._connections.append(await Connection((envoy or self.envoy).url).open())
        return self._connections[-1]

    def start_control_plane(self, policy: str = "weighted_random", **settings: Any) -> Process:
        """``settings`` are sections of its configuration."""
        config = {
            "listen": f"127.0.0.1:{self.grpc_port}",
            "http": f"127.0.0.1:{self.http_port}",
            "filter": {"policy": policy},
            "envoy": {"wasm_path": self.wasm},
            **settings,
        }
        path = self._folder / "control-plane.yaml"
        path.write_text(yaml.safe_dump(config))
        self.control_plane = self._start_isocost("control-plane", "--config", str(path))
        return self.control_plane

    def start_gateway(self, concurrency: int = 2) -> Envoy:
        """One more Envoy: ``edge-1``, ``edge-2`` and so on."""
        data = local_bootstrap(self.grpc_port, self.wasm, f"edge-{len(self.envoys) + 1}")
        self.envoys.append(self._start_envoy(data, concurrency))
        self.envoy = self.envoys[0]
        return self.envoys[-1]

    @asynccontextmanager
    async def running(self, backends: Iterable[Backend], **settings: Any) -> AsyncIterator[None]:
        """Inside it the backends are nodes, and every worker of every Envoy picks from them. Until
        then they must answer with 200.
        """
        nodes = [backend.node for backend in backends]
        self.start_control_plane(**settings)
        for _ in range(self.gateways):
            self.start_gateway(self.workers)
        async with Announcer(self.grpc_port, nodes) as self.announcer:
            for envoy in self.envoys:
                await wait_for_members(envoy, len(nodes), len(nodes), START_S)
                await wait_until(
                    partial(self._both_workers_pick, envoy), "the filters pick", START_S
                )
            for backend in backends:
                backend.received.clear()
            try:
                yield
            finally:
                for connection in self._connections:
                    connection.cut()

    async def in_flight(self) -> dict[str, int]:
        """Open requests by node, as the control plane counts them."""
        return {row["name"]: row["in_flight"] for row in await self.node_rows()}

    async def in_flight_shown(self) -> dict[str, int]:
        """Open requests by node, as `isocost nodes` prints them."""
        address = f"127.0.0.1:{self.http_port}"
        command = self._start_isocost("nodes", "--http", address, "--json")
        await wait_until(lambda: not command.running, "the command ends")
        rows = json.loads(command.stdout.read_text())["nodes"]
        return {row["name"]: row["in_flight"] for row in rows}

    async def counts(self, total: int) -> bool:
        """Does the control plane count exactly that many open requests, on every node?"""
        counts = (await self.in_flight()).values()
        return None not in counts and sum(counts) == total

    async def outcomes(self, name: str) -> dict[str, int]:
        """What the gateways observed of this node."""
        return next(row["outcomes"] for row in await self.node_rows() if row["name"] == name)
