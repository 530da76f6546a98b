"""Nodes that only Consul lists, behind a real Envoy: late, drained, held, and gone in the end."""

from __future__ import annotations

import aiohttp
import pytest

from tests.integration.conftest import StartBackend
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.consul_nodes import register
from tests.integration.harness.fleet import START_S
from tests.integration.harness.gateway import post, wait_for_members
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

pytestmark = pytest.mark.side_by_side

#: A probe every 5 s and three tries, the longest wait before Consul is asked again, and a busy
#: machine.
PROBED_S, ASKED_S = 15.0, 15.0
REQUESTS = 20


async def test_a_consul_that_is_late_and_then_forgets_all_takes_no_node_that_is_there(
    stand_in_fleet: StandInFleet, start_backend: StartBackend, consul_server: ConsulServer
) -> None:
    fleet = stand_in_fleet
    backends = [await start_backend(f"node-{number}") for number in range(3)]
    fleet.start_control_plane(discovery={"consul": {"address": consul_server.http}})
    fleet.start_gateway()
    await wait_until(lambda: waits_for_consul(fleet), "it looks for Consul", START_S)
    await fleet.envoy.wait_live()
    assert (await fleet.status())["push"]["tables"] == 0

    await consul_server.start()
    for backend in backends:
        await register(consul_server, backend.node)
    await wait_for_members(fleet.envoy, total=3, healthy=3, deadline_s=ASKED_S)

    await consul_server.call("PUT", "/v1/agent/service/maintenance/node-0?enable=true")
    await wait_for_members(fleet.envoy, total=3, healthy=2)
    assert await reason(fleet, "node-0") == "maintenance"
    await consul_server.call("PUT", "/v1/agent/service/maintenance/node-0?enable=false")
    await wait_for_members(fleet.envoy, total=3, healthy=3)

    consul_server.kill()
    await consul_server.start()
    await wait_until(lambda: held(fleet, 3), "they are held", ASKED_S)
    for _ in range(REQUESTS):
        assert (await post(fleet.session, fleet.envoy))[0] == 200
    await backends[2].stop()
    await wait_for_members(fleet.envoy, total=2, healthy=2, deadline_s=PROBED_S)
    assert await held(fleet, 2)


async def source(fleet: StandInFleet) -> dict[str, object]:
    (only,) = (await fleet.status())["discovery"]["sources"]
    return dict(only)


async def waits_for_consul(fleet: StandInFleet) -> bool:
    try:
        now = await source(fleet)
    except aiohttp.ClientError:
        return False
    return now["nodes"] is None and now["error"] is not None


async def held(fleet: StandInFleet, count: int) -> bool:
    now = await source(fleet)
    return now["error"] is None and now["held_count"] == count


async def reason(fleet: StandInFleet, name: str) -> str:
    return next(str(row["reason"]) for row in await fleet.node_rows() if row["name"] == name)
