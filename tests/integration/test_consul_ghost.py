"""A node that a real Consul calls passing and that is not there: it is out, and shown as such."""

from __future__ import annotations

from dataclasses import replace

import aiohttp

from tests.integration.conftest import StartBackend
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.consul_nodes import register
from tests.integration.harness.fleet import requests_per_node
from tests.integration.harness.gateway import post, wait_for_members
from tests.integration.harness.ports import free_port
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

#: A probe every 5 s and three tries, and a busy machine.
PROBED_S = 15.0
REQUESTS = 20


async def test_a_ghost_that_consul_calls_passing_is_taken_out_by_the_probe_and_shown(
    stand_in_fleet: StandInFleet, start_backend: StartBackend, consul_server: ConsulServer
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}") for number in range(3)]
    ghost = replace(backends[0].node, name="ghost", address=f"127.0.0.1:{free_port()}")
    await consul_server.start()
    for node in (*(backend.node for backend in backends), ghost):
        await register(consul_server, node)
    fleet.start_control_plane(discovery={"consul": {"address": consul_server.http}})
    fleet.start_gateway()
    await wait_until(lambda: is_out(fleet, "ghost"), "the ghost is out", PROBED_S)
    await wait_for_members(fleet.envoy, total=4, healthy=3)
    (listed,) = [
        entry
        for entry in await consul_server.call("GET", "/v1/health/service/isocost-node?passing")
        if entry["Service"]["ID"] == "ghost"
    ]
    assert listed
    discovery = (await fleet.status())["discovery"]
    assert discovery["unreachable"] == ["ghost"]
    (source,) = discovery["sources"]
    assert (source["nodes"], source["held_count"]) == (4, 0)
    before = len(fleet.envoy.access_log())
    for _ in range(REQUESTS):
        assert (await post(fleet.session, fleet.envoy))[0] == 200
    entries = (await fleet.envoy.logged(before + REQUESTS))[before:]
    assert requests_per_node(entries).keys() <= {backend.name for backend in backends}


async def is_out(fleet: StandInFleet, name: str) -> bool:
    try:
        rows = {row["name"]: row for row in await fleet.node_rows()}
    except aiohttp.ClientError:
        return False
    return name in rows and (rows[name]["state"], rows[name]["reason"]) == ("lost", "unreachable")
