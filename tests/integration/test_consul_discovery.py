"""A node that is registered in a real Consul is seen at once, with what Consul knows of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from isocost.discovery.consul import Pace
from isocost.discovery.listing import Check
from isocost.model import NodeSample
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.consul_nodes import (
    N1,
    N2,
    SEEN_S,
    listed,
    registered,
    until_checks,
    until_listed,
    watching,
)
from tests.integration.harness.wait import wait_until


async def test_nodes_come_and_go_within_a_second_with_all_that_they_are(
    consul_server: ConsulServer,
) -> None:
    await consul_server.start()
    async with watching(consul_server.http) as watch:
        await wait_until(lambda: listed(watch) == (), "an empty list")
        begin_s = time.monotonic()
        async with registered(consul_server.http, N1, N2):
            await until_listed(watch, N1, N2)
            assert time.monotonic() - begin_s < SEEN_S
            gone_s = time.monotonic()
        await wait_until(lambda: listed(watch) == (), "they are gone")
        assert time.monotonic() - gone_s < SEEN_S


async def test_what_consul_knows_of_a_node_is_seen_within_a_second(
    consul_server: ConsulServer,
) -> None:
    await consul_server.start()
    async with (
        registered(consul_server.http, N1, check_ttl_s=15) as registration,
        watching(consul_server.http) as watch,
    ):
        await until_checks(watch, Check.PASSING)
        # The engine as its agent sees it, which looks at it twice a second.
        registration.samples = (NodeSample(N1, engine_up=False, engine_silent=True),)
        await until_checks(watch, Check.WARNING, deadline_s=0.5 + SEEN_S)
        registration.samples = (NodeSample(N1, engine_up=False),)
        await until_checks(watch, Check.CRITICAL, deadline_s=0.5 + SEEN_S)
        registration.samples = (NodeSample(N1, engine_up=True),)
        await until_checks(watch, Check.PASSING, deadline_s=0.5 + SEEN_S)
        # Maintenance of the instance, and of the machine.
        for path in ("service/maintenance/isocost:a1:n1", "maintenance"):
            await consul_server.call("PUT", f"/v1/agent/{path}?enable=true")
            await until_checks(watch, Check.MAINTENANCE, deadline_s=SEEN_S)
            await consul_server.call("PUT", f"/v1/agent/{path}?enable=false")
            await until_checks(watch, Check.PASSING, deadline_s=SEEN_S)
        # Another check of the machine.
        check = {"ID": "disk", "Name": "disk", "TTL": "1h", "Status": "critical"}
        await consul_server.call("PUT", "/v1/agent/check/register", check)
        await until_checks(watch, Check.CRITICAL, deadline_s=SEEN_S)


async def test_an_agent_that_is_silent_is_late_once_its_ttl_is_over(
    consul_server: ConsulServer,
) -> None:
    ttl_s = 2
    await consul_server.start()
    async with (
        watching(consul_server.http) as watch,
        registered(consul_server.http, N1, check_ttl_s=ttl_s) as registration,
    ):
        await until_checks(watch, Check.PASSING)
        # As if it had been killed: Consul is told nothing any more.
        registration.samples = ()
        await until_checks(watch, Check.AGENT_LATE, deadline_s=ttl_s + SEEN_S)
        registration.samples = (NodeSample(N1, engine_up=True),)
        await until_checks(watch, Check.PASSING)


async def test_a_node_is_never_seen_as_anything_but_passing_while_it_is_registered(
    consul_server: ConsulServer,
) -> None:
    await consul_server.start()
    restarted = replace(N1, instance_id="n1@1800000000")
    seen: set[tuple[str, Check]] = set()
    async with (
        watching(consul_server.http, Pace(news_s=0.0, no_news_s=0.0)) as watch,
        registered(consul_server.http, N1) as registration,
    ):

        async def note() -> None:
            while True:
                seen.update((item.node.instance_id, item.check) for item in listed(watch) or ())
                await asyncio.sleep(0.001)

        noting = asyncio.create_task(note())
        await until_listed(watch, N1)
        registration.samples = (NodeSample(restarted, engine_up=True),)
        await until_listed(watch, restarted)
        noting.cancel()
    assert seen == {(node.instance_id, Check.PASSING) for node in (N1, restarted)}


async def test_a_fleet_that_rests_costs_consul_one_answer_in_a_wait(
    consul_server: ConsulServer,
) -> None:
    confirmed: set[float] = set()
    await consul_server.start()
    async with (
        registered(consul_server.http, N1, check_ttl_s=2),
        watching(consul_server.http, Pace(wait_s=0.5)) as watch,
    ):
        await until_checks(watch, Check.PASSING)
        end_s = time.monotonic() + 2.0

        def over() -> bool:
            confirmed.add(watch.source.confirmed_s)
            return time.monotonic() > end_s

        # Heartbeats come all the while, and wake nobody.
        await wait_until(over, "four waits")
    assert len(confirmed) <= 6
