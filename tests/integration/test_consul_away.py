"""Consul is dead for a minute under load, comes back empty, and what left meanwhile is gone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.integration.harness.completion_load import CompletionLoad
from tests.integration.harness.consul import ConsulServer
from tests.integration.harness.fleet import MODEL, START_S, FakeNode, Fleet
from tests.integration.harness.wait import wait_until

pytestmark = pytest.mark.side_by_side

AWAY_S = 62.0
PER_S = 40
#: The longest wait before a Consul that did not answer is asked again, a heartbeat, and three tries
#: of a probe; on a busy machine.
BACK_S = 30.0
OLD_WRITES = 200

#: By who speaks for them: an agent that stays, an agent that leaves, and nobody.
STAYING, LEAVING, BARE = range(4), range(4, 5), range(5, 7)
LEFT = {"node-5", "node-7"}


async def test_a_minute_without_consul_costs_no_request_and_its_empty_return_no_node(
    fleet: Fleet, consul_server: ConsulServer, tmp_path: Path
) -> None:
    await consul_server.start()
    fleet.consul = consul_server.http
    fleet.plan_nodes(7)
    fleet.start_control_plane("equal_cost")
    for node in fleet.nodes:
        fleet.start_node(node)
    fleet.start_agent_of("agent-1", of(fleet, STAYING), tmp_path / "agent-1.yaml")
    leaving = fleet.start_agent_of("agent-2", of(fleet, LEAVING), tmp_path / "agent-2.yaml")
    for node in of(fleet, BARE):
        await register(consul_server, node)
    fleet.start_gateway()
    await fleet.envoy.wait_live()
    await wait_until(lambda: fleet.serving(7), "all nodes serve", START_S)
    await wait_until(lambda: registered(consul_server, 7), "all are in Consul", START_S)
    # It is no new one: the index that it began with is far behind.
    for number in range(OLD_WRITES):
        await consul_server.call("PUT", f"/v1/kv/written/{number}", number)
    await register(consul_server, of(fleet, BARE)[0], "again")

    async with CompletionLoad(fleet, PER_S, max_tokens=20) as load:
        await wait_until(lambda: load.sent >= PER_S, "load")
        consul_server.kill()
        killed = load.sent
        await wait_until(lambda: error(fleet), "it is seen to be away")
        # One of those with an agent and one without leave for good.
        leaving.kill()
        for name in sorted(LEFT):
            fleet.processes[name].stop()
        await wait_until(lambda: load.sent >= killed + AWAY_S * PER_S, "a minute", AWAY_S + 30.0)
        assert await error(fleet)
        assert {f"node-{index + 1}" for index in (*STAYING, *BARE)} - LEFT <= await serving(fleet)

        await consul_server.start()
        await wait_until(lambda: only(fleet, LEFT), "what left is gone", BACK_S)
        await wait_until(lambda: registered(consul_server, len(STAYING)), "they register", BACK_S)
        # Its last word is that it has no other nodes, and the others serve on.
        await wait_until(lambda: held(fleet), "the bare one is held", BACK_S)
        after = load.sent + 3 * PER_S
        await wait_until(lambda: load.sent >= after, "load after its return")
        assert await serving(fleet) == {f"node-{number}" for number in (1, 2, 3, 4, 6)}
    print(load.sent, "requests,", len(load.failures), "failed")
    assert load.failures == []


def of(fleet: Fleet, indices: Iterable[int]) -> list[FakeNode]:
    return [fleet.nodes[index] for index in indices]


async def register(consul: ConsulServer, node: FakeNode, note: str = "") -> None:
    """As a script of an operator would, who has no agent there."""
    service = {
        "ID": node.name,
        "Name": "isocost-node",
        "Address": "127.0.0.1",
        "Port": node.port,
        "Meta": {
            "rack": node.rack,
            "host": node.host,
            "note": note,
            "models_0": json.dumps([{"name": MODEL}]),
        },
    }
    await consul.call("PUT", "/v1/agent/service/register", service)


async def registered(consul: ConsulServer, count: int) -> bool:
    entries = await consul.call("GET", "/v1/health/service/isocost-node?passing")
    return len(entries) == count


async def error(fleet: Fleet) -> str | None:
    (source,) = (await fleet.status())["discovery"]["sources"]
    found: str | None = source["error"]
    return found


async def held(fleet: Fleet) -> bool:
    (source,) = (await fleet.status())["discovery"]["sources"]
    return [one["name"] for one in source["held"]] == ["node-6"]


async def serving(fleet: Fleet) -> set[str]:
    return {row["name"] for row in await fleet.node_rows() if row["state"] == "serving"}


async def only(fleet: Fleet, left: set[str]) -> bool:
    """Are these, and no others, out of the roster?"""
    names = {row["name"] for row in await fleet.node_rows()}
    return names == {node.name for node in fleet.nodes} - left
