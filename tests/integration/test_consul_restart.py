"""A real Consul that is killed: the list stays, and what it forgot is registered again."""

from __future__ import annotations

import time
from pathlib import Path

from isocost.discovery.consul import Pace
from isocost.discovery.listing import Listed
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.consul_nodes import (
    N1,
    N2,
    listed,
    registered,
    until_listed,
    watching,
)
from tests.integration.harness.wait import wait_until


async def test_a_consul_that_comes_back_empty_has_the_nodes_again_within_a_heartbeat(
    consul_server: ConsulServer,
) -> None:
    ttl_s = 6
    await consul_server.start()
    async with (
        registered(consul_server.http, N1, check_ttl_s=ttl_s),
        watching(consul_server.http, Pace(retry_most_s=1.0)) as watch,
    ):
        await until_listed(watch, N1)
        consul_server.kill()
        await wait_until(lambda: watch.source.error is not None, "the watch sees it")
        assert listed(watch) == (Listed(N1),)
        await consul_server.start()
        back_s = time.monotonic()

        async def has_it_again() -> bool:
            entries = await consul_server.call("GET", "/v1/health/service/isocost-node")
            return len(entries) == 1

        await wait_until(has_it_again, "it is registered again")
        assert time.monotonic() - back_s < ttl_s / 3 + 1.0
        await wait_until(lambda: watch.source.error is None, "the watch follows it again")
        await until_listed(watch, N1)


async def test_a_consul_that_kept_its_data_is_followed_on(consul_server: ConsulServer) -> None:
    consul_server.keeps = True
    await consul_server.start()
    async with (
        registered(consul_server.http, N1),
        watching(consul_server.http, Pace(retry_most_s=1.0)) as watch,
    ):
        await until_listed(watch, N1)
        consul_server.kill()
        await wait_until(lambda: watch.source.error is not None, "the watch sees it")
        await consul_server.start()
        await wait_until(lambda: watch.source.error is None, "the watch follows it again")
        await until_listed(watch, N1)


async def test_a_node_taken_out_while_consul_was_away_holds_up_no_other(
    consul_server: ConsulServer, tmp_path: Path
) -> None:
    # With ACLs an unknown service is an error of its own.
    consul_server.acls = True
    await consul_server.start()
    token = tmp_path / "token"
    rules = 'service_prefix "" { policy = "write" }'
    token.write_text(await consul_server.token(rules))
    async with registered(
        consul_server.http, N1, N2, check_ttl_s=3, token_file=str(token)
    ) as registration:
        await wait_until(lambda: registration._told.keys() == {"n1", "n2"}, "both are registered")
        consul_server.kill()
        registration.follow([N2])
        consul_server.root = None
        await consul_server.start()
        token.write_text(await consul_server.token(rules))

        async def has_the_other() -> bool:
            services = await consul_server.call("GET", "/v1/agent/services")
            return set(services) == {"isocost:a1:n2"}

        await wait_until(has_the_other, "the other one is registered again")
        await wait_until(lambda: registration._told.keys() == {"n2"}, "the first one is let go")
