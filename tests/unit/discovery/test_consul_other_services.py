"""A catalog that is empty but for others' services: no more to be believed than an empty answer."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from isocost.config import DiscoverySettings
from isocost.config_consul import ConsulDiscoverySettings
from isocost.discovery.consul import ConsulWatch, Pace
from isocost.discovery.registry import Registry
from tests.integration.harness.wait import wait_until
from tests.unit.discovery.fake_consul import fake_consul, instance, listing

PACE = Pace(news_s=0.01, no_news_s=0.02, retry_least_s=0.02, retry_most_s=0.1)
OURS = [instance(f"n{number}", address=f"192.0.2.{number}") for number in range(1, 5)]
NAMES = ["n1", "n2", "n3", "n4"]


def other(service: str, port: int = 8300) -> dict[str, Any]:
    """An instance as Consul lists it of a service that is none of ours."""
    entry = instance(service, port=port)
    entry["Service"] |= {"ID": service, "Service": service, "Meta": {}}
    return entry


@pytest.mark.parametrize(
    "left",
    [(), (other("consul"),), (other("consul"), other("web", 80), other("db", 5432))],
    ids=["nothing", "consul itself", "several"],
)
async def test_a_catalog_with_other_services_only_takes_no_node_away(
    left: tuple[dict[str, Any], ...],
) -> None:
    async with fake_consul() as consul:
        watch = ConsulWatch(
            ConsulDiscoverySettings(address=consul.address), rng=random.Random(1), pace=PACE
        )
        registry = Registry(DiscoverySettings(), time.monotonic(), watches=(watch,))
        task = asyncio.create_task(watch.run())

        def names() -> list[str]:
            return [node.name for node in registry.view(time.monotonic()).nodes]

        def doubted() -> dict[str, object]:
            names()
            (source,) = registry.state(time.monotonic()).sources
            return dict(source.held)

        consul.then(listing(*OURS, index=5))
        await wait_until(lambda: names() == NAMES, "the fleet")
        # It says so twice, also when it is asked for no cached answer.
        consul.then(listing(*left, index=6), listing(*left, index=6))
        await wait_until(lambda: sorted(doubted()) == NAMES, "the answer is taken")
        assert "consistent" in consul.asked[2].query
        assert names() == NAMES
        consul.then(listing(*OURS, index=7))
        await wait_until(lambda: not doubted(), "the fleet is listed again")
        assert names() == NAMES
        task.cancel()
        await asyncio.wait([task])
