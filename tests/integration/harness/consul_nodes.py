"""Nodes registered in a real Consul, and a watch that follows them, within one test."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from isocost.config_consul import ConsulDiscoverySettings, ConsulRegistrationSettings
from isocost.discovery.consul import ConsulWatch, Pace
from isocost.discovery.consul_registration import ConsulRegistration
from isocost.discovery.listing import Check, Listed
from isocost.model import Model, Node, NodeSample
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.wait import wait_until

#: A change in Consul is seen by then: no polling that Consul could bear would promise it.
SEEN_S = 1.0
PACE = Pace()
#: Every field that there is.
N1 = Node(
    "n1",
    "n1@1700000000",
    "192.0.2.1:8000",
    "r1",
    "h1",
    "H100",
    8,
    (Model("m", ("alias",), 4, 16_000_000_000, 131072, 32768, ("lora",)),),
    100,
    4000,
)
N2 = Node("n2", "n2@1700000000", "[2001:db8::2]:8000", "r2", "h2")


@asynccontextmanager
async def watching(address: str, pace: Pace = PACE, **settings: Any) -> AsyncIterator[ConsulWatch]:
    """A watch that runs meanwhile."""
    watch = ConsulWatch(
        ConsulDiscoverySettings(address=address, **settings), rng=random.Random(1), pace=pace
    )
    task = asyncio.create_task(watch.run())
    try:
        yield watch
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def registered(
    address: str, *nodes: Node, **settings: Any
) -> AsyncIterator[ConsulRegistration]:
    """Nodes of agent a1 that are registered meanwhile, their engines up."""
    registration = ConsulRegistration(
        ConsulRegistrationSettings(address=address, **settings), "a1", nodes, random.Random(1)
    )
    registration.samples = tuple(NodeSample(node, engine_up=True) for node in nodes)
    task = asyncio.create_task(registration.run())
    try:
        yield registration
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


def listed(watch: ConsulWatch) -> tuple[Listed, ...] | None:
    return None if watch.source.listing is None else watch.source.listing.nodes


def checks(watch: ConsulWatch) -> list[Check]:
    return [item.check for item in listed(watch) or ()]


async def until_checks(watch: ConsulWatch, *expected: Check, deadline_s: float = 5.0) -> None:
    await wait_until(lambda: checks(watch) == list(expected), f"{expected}", deadline_s)


async def until_listed(watch: ConsulWatch, *nodes: Node) -> None:
    """These nodes, all passing."""
    expected = tuple(map(Listed, nodes))
    await wait_until(lambda: listed(watch) == expected, f"{[node.name for node in nodes]}")


async def register(consul: ConsulServer, node: Node) -> None:
    """A node in Consul that no agent speaks for: without a check it is passing for ever."""
    host, _, port = node.address.rpartition(":")
    service = {
        "ID": node.name,
        "Name": "isocost-node",
        "Address": host,
        "Port": int(port),
        "Meta": {"rack": node.rack, "host": node.host},
    }
    await consul.call("PUT", "/v1/agent/service/register", service)
