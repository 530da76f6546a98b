"""Plays the agents or the Envoys of a large fleet, each kind in a process of its own.

    python -m tests.benchmark.scale_load agents|envoys PORT NODES

What it says is one JSON object in a line: {} when it is ready, and what it saw for each line that
it reads. It ends with its input.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable

import grpc.aio
from envoy_data_plane.envoy.service.discovery.v3 import DiscoveryResponse

from isocost.discovery.telemetry_service import SERVICE as TELEMETRY
from isocost.push import observation_service
from isocost.push.fleet import RESOURCE
from isocost.push.type_urls import ROSTER, TABLE
from isocost.schedule import report_lead_s, ticks
from isocost.v1 import roster_pb2
from tests.benchmark.raw_grpc import ClientStream
from tests.benchmark.scale_traffic import (
    INTERVAL_S,
    NODES_PER_AGENT,
    AgentTraffic,
    EnvoyTraffic,
)
from tests.benchmark.tick_fleet import node_sample
from tests.contract.raw_client import Client, open_stream

ENVOYS = 4
#: Of all Envoys, for each node: 500 for 1,024 nodes.
REQUESTS_PER_S = 500 / 1024
#: Agents connect one after the other, as those of a fleet that is already there would not.
_CONNECTING_S = 0.002


class Agents:
    """Agents that report as real ones do: each interval, spread over the same time before it."""

    def __init__(self, port: int, nodes: int) -> None:
        self._port = port
        self._agents = sorted(
            map(AgentTraffic, range(nodes // NODES_PER_AGENT)),
            key=lambda agent: -report_lead_s(agent.name),
        )
        self._streams: list[ClientStream] = []
        self._sent = self._held_back = 0

    async def run(self, ready: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        for _ in self._agents:
            _, stream = await loop.create_connection(
                lambda: ClientStream(f"/{TELEMETRY}/Report", "control-plane"),
                "127.0.0.1",
                self._port,
            )
            self._streams.append(stream)
            await asyncio.sleep(_CONNECTING_S)
        ready()
        sequence, longest_s = -1, max(report_lead_s(agent.name) for agent in self._agents)
        async for now_s in ticks(INTERVAL_S, longest_s):
            sequence += 1
            for agent, stream in zip(self._agents, self._streams, strict=True):
                due_s = now_s + longest_s - report_lead_s(agent.name)
                if due_s - time.monotonic() > 1e-3:
                    await asyncio.sleep(due_s - time.monotonic())
                if stream.send(agent.report(sequence, time.time(), time.monotonic())):
                    self._sent += 1
                else:
                    self._held_back += 1

    def seen(self) -> dict[str, object]:
        """Since it was asked last: reports sent, and those that the control plane did not take."""
        result: dict[str, object] = {"sent": self._sent, "held_back": self._held_back}
        self._sent = self._held_back = 0
        return result


class Envoys:
    """Envoys that acknowledge what comes, and report what their VMs saw each interval."""

    def __init__(self, port: int, nodes: int) -> None:
        self._port, self._nodes = port, nodes
        # Before there is a connection, which would not be kept alive meanwhile.
        ids = sorted(node_sample(number, 1).node.id for number in range(nodes))
        requests_per_s = REQUESTS_PER_S * nodes / ENVOYS
        self._traffic = [EnvoyTraffic(number, ids, requests_per_s) for number in range(ENVOYS)]
        self._intervals_ms: list[float] = []
        self._reports = 0
        self._complete = 0

    async def run(self, ready: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(ENVOYS):
                group.create_task(self._run(number, ready))

    async def _run(self, number: int, ready: Callable[[], None]) -> None:
        options = [
            ("grpc.max_receive_message_length", -1),
            # Each Envoy has a connection of its own.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port}", options) as channel:
            client = open_stream(channel, f"envoy-{number}")
            for type_url in (ROSTER, TABLE):
                await client.send(type_url, RESOURCE)
            await self._complete_roster(client)
            self._complete += 1
            if self._complete == ENVOYS:
                ready()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._take(client))
                group.create_task(self._report(channel, number))

    async def _complete_roster(self, client: Client) -> None:
        nodes = 0
        while nodes != self._nodes:
            response = DiscoveryResponse.parse(await client.call.read())
            if response.type_url == ROSTER and response.resources:
                nodes = len(roster_pb2.Roster.FromString(response.resources[0].value).nodes)
            await client.ack(response, RESOURCE)

    async def _take(self, client: Client) -> None:
        before_s = None
        while True:
            raw = await client.call.read()
            now_s = time.monotonic()
            response = DiscoveryResponse.parse(raw)
            if response.type_url == TABLE:
                if before_s is not None:
                    self._intervals_ms.append((now_s - before_s) * 1e3)
                before_s = now_s
            await client.ack(response, RESOURCE)

    async def _report(self, channel: grpc.aio.Channel, number: int) -> None:
        call = channel.stream_unary(f"/{observation_service.SERVICE}/Report")()
        sequence = 0
        async for _ in ticks(INTERVAL_S, INTERVAL_S * number / ENVOYS):
            sequence += 1
            for report in self._traffic[number].reports(sequence, time.time()):
                await call.write(report)
                self._reports += 1

    def seen(self) -> dict[str, object]:
        """Since it was asked last: times between tables, and reports of VMs that were sent."""
        result = {"intervals_ms": self._intervals_ms, "sent": self._reports}
        self._intervals_ms, self._reports = [], 0
        return result


async def main(kind: str, port: int, nodes: int) -> None:
    load = {"agents": Agents, "envoys": Envoys}[kind](port, nodes)
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str]()
    loop.add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline()))
    gc.freeze()
    running = asyncio.create_task(load.run(lambda: print("{}", flush=True)))
    running.add_done_callback(lambda _: lines.put_nowait(""))
    while await lines.get():
        print(json.dumps(load.seen()), flush=True)
    if running.done():
        running.result()
    running.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
