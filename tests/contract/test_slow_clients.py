"""Conformance: one response of a type is out at most, and behind it waits the newest only."""

import asyncio
import random

from isocost.push.ads import AdsService
from isocost.push.cache import Cache
from isocost.push.type_urls import ROSTER, TABLE
from tests.contract.conftest import OpenXds
from tests.contract.raw_client import DEADLINE_S
from tests.contract.xds_client import XdsClient
from tests.contract.xds_resources import roster, table

PUSHES = 300
#: A fifth of the time between tables and four and a half times that, as tests pass faster.
PUSH_S, SLOWEST_ANSWER_S = 0.002, 0.009
CLIENTS = 8


async def test_client_that_answers_late_gets_the_newest_table_only(
    cache: Cache, ads: AdsService, open_xds: OpenXds
) -> None:
    cache.publish(roster(1), table(1))
    client = open_xds()
    await client.subscribe(TABLE, "fleet")
    first = await client.receive(TABLE)
    # Five seconds of pushes, at five a second.
    for version in range(2, 27):
        cache.publish(table(version))
        await asyncio.sleep(0)
    assert ads.clients()[0].types[TABLE].sent_version == "1"
    await client.ack(first)
    assert (await client.taken(TABLE)).version == "26"
    await client.expect_nothing_else()


async def test_slow_client_slows_no_other(cache: Cache, open_xds: OpenXds) -> None:
    cache.publish(roster(1), table(1))
    slow, quick = open_xds("slow"), open_xds("quick")
    await slow.subscribe(TABLE, "fleet")
    await slow.receive(TABLE)
    await quick.subscribe(TABLE, "fleet")
    for version in range(2, 12):
        await quick.taken(TABLE)
        cache.publish(table(version))
    assert (await quick.receive(TABLE)).version == "11"


async def test_answers_that_cross_pushes_never_stop_the_delivery(
    cache: Cache, ads: AdsService, open_xds: OpenXds
) -> None:
    cache.publish(roster(1), table(1))
    chance = random.Random(7)

    async def follow(client: XdsClient) -> int:
        await client.subscribe(ROSTER, "fleet")
        await client.taken(ROSTER)
        await client.subscribe(TABLE, "fleet")
        received = 0
        while True:
            response = await client.receive(TABLE)
            received += 1
            await asyncio.sleep(chance.uniform(0, SLOWEST_ANSWER_S))
            await client.ack(response)
            if response.version == str(PUSHES):
                return received

    clients = [open_xds(f"envoy-{number}") for number in range(CLIENTS)]
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        counts = [group.create_task(follow(client)) for client in clients]
        for version in range(2, PUSHES + 1):
            cache.publish(table(version))
            await asyncio.sleep(PUSH_S)
    assert all(count.result() <= PUSHES for count in counts)
    for client in clients:
        await client.expect_nothing_else()
    assert not any(held.types[TABLE].outstanding for held in ads.clients())
