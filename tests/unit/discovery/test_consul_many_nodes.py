"""One agent with sixty nodes: none waits for the calls of the others, nor for a blocking query."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from itertools import pairwise

from aiohttp import web

from isocost.config_consul import ConsulDiscoverySettings, ConsulRegistrationSettings
from isocost.discovery.consul import ConsulWatch
from isocost.discovery.consul_client import heartbeat_id
from isocost.discovery.consul_registration import ConsulRegistration
from isocost.model import Node, NodeSample
from tests.integration.harness.wait import wait_until
from tests.unit.discovery.fake_consul import fake_consul, instance, listing

NODES = [
    Node(f"n{number}", f"n{number}@1", f"192.0.2.{number}:80", "r", "h") for number in range(60)
]
TTL_S = 2
#: So long does Consul take for a call: one after the other the calls would take half a minute.
ANSWER_S = 0.4
HEARTBEATS = 3


async def test_sixty_nodes_beat_within_their_ttl_beside_a_blocking_query() -> None:
    beats: dict[str, list[float]] = defaultdict(list)
    held = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal held
        if request.path.startswith("/v1/health/"):
            if "index" in request.query:
                held += 1
                await asyncio.Event().wait()
            return await listing(instance("n1"))(request)
        await asyncio.sleep(ANSWER_S)
        if request.path.startswith("/v1/agent/check/pass/"):
            beats[request.path.rpartition("/")[2]].append(time.monotonic())
        return web.Response()

    async with fake_consul() as consul:
        consul.then(*[answer] * 100 * len(NODES))
        registration = ConsulRegistration(
            ConsulRegistrationSettings(address=consul.address, check_ttl_s=TTL_S),
            "a1",
            NODES,
            random.Random(1),
        )
        registration.samples = tuple(NodeSample(node, engine_up=True) for node in NODES)
        watch = ConsulWatch(ConsulDiscoverySettings(address=consul.address), rng=random.Random(1))
        begin_s = time.monotonic()
        tasks = [asyncio.create_task(watch.run()), asyncio.create_task(registration.run())]

        def beaten() -> bool:
            return len(beats) == len(NODES) and min(map(len, beats.values())) >= HEARTBEATS

        await wait_until(beaten, f"{HEARTBEATS} heartbeats of each node")
        assert held == 1 and watch.source.error is None
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert beats.keys() == {heartbeat_id(f"isocost:a1:{node.name}") for node in NODES}
    # The check counts from the registration, which is one answer before the first heartbeat.
    late = {
        check: gaps_s
        for check, times_s in beats.items()
        if max(gaps_s := [after_s - one_s for one_s, after_s in pairwise([begin_s, *times_s])])
        >= TTL_S
    }
    assert late == {}
