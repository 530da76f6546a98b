"""A drained node gets nothing, not even from the fallback; its streams end by themselves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.harness.fleet import MODEL, FakeNode, Fleet, decision_fields
from tests.integration.harness.process import Process
from tests.integration.harness.wait import wait_until

#: The one path that only the stream has.
STREAM_PATH = "/v1/chat/completions"
STREAM_S = 20.0
TOKENS_PER_S = 135


@pytest.mark.parametrize("policy", ["equal_cost", "weighted_random"])
async def test_a_drained_node_gets_nothing_also_from_a_stale_table_and_the_fallback(
    fleet: Fleet, policy: str
) -> None:
    control_plane = await start(fleet, policy)
    node = fleet.nodes[1]
    stream = await open_stream_on(fleet, node)
    await drain(fleet, node)
    version = await fleet.next_table()
    await wait_until(lambda: fleet.picks_from(version), "every worker has that table")
    await wait_until(lambda: draining_in_envoy(fleet), "Envoy's endpoints say so")
    drained = len(fleet.envoy.access_log())

    before = len(fleet.envoy.access_log())
    await fleet.complete(500)
    await require_none_on(fleet, node, before, 500, "picked")

    control_plane.kill()
    await wait_until(lambda: decided(fleet, "stale_table"), "the table is stale", 30)
    before = len(fleet.envoy.access_log())
    await fleet.complete(500)
    await require_none_on(fleet, node, before, 500, "stale_table")

    text = await stream
    assert text.rstrip().endswith("data: [DONE]")
    await wait_until(lambda: logged_on(fleet, node, STREAM_PATH), "the stream's entry")
    # Nothing but the stream, also while the table grew old.
    since = fleet.envoy.access_log()[drained:]
    assert len(since) > 1000
    assert [entry["path"] for entry in since if entry["node"] == node.name] == [STREAM_PATH]


async def test_an_undrained_node_serves_again(fleet: Fleet) -> None:
    await start(fleet, "equal_cost")
    node = fleet.nodes[1]
    await drain(fleet, node)
    version = await fleet.next_table()
    await wait_until(lambda: fleet.picks_from(version), "every worker has that table")
    await drain(fleet, node, method="DELETE")
    await wait_until(lambda: serves(fleet, node), "it serves")


async def start(fleet: Fleet, policy: str) -> Process:
    """Everything started; the control plane's process."""
    control_plane = fleet.start_control_plane(policy)
    fleet.plan_nodes(4)
    for node in fleet.nodes:
        fleet.start_node(node)
    fleet.start_agent()
    fleet.start_gateway()
    await fleet.envoy.wait_live()
    await wait_until(lambda: fleet.serving(4), "four nodes serve")
    await wait_until(lambda: decided(fleet, "picked"), "the filters pick")
    return control_plane


async def drain(fleet: Fleet, node: FakeNode, method: str = "PUT") -> None:
    url = f"{fleet.http}/v1/nodes/{node.name}/drain"
    note = {"who": "test@host", "why": "a test"}
    async with fleet.session.request(method, url, json=note) as response:
        assert response.status == 200, await response.text()


async def open_stream_on(fleet: Fleet, node: FakeNode) -> asyncio.Task[str]:
    """A long stream through Envoy on that node; its whole text at its end."""
    for other in fleet.nodes:
        if other is not node:
            await fleet.override(other.name, weight=0.0)
    version = await fleet.next_table()
    await wait_until(lambda: fleet.picks_from(version), "only that node is picked")
    stream = asyncio.create_task(read_stream(fleet))
    await wait_until(lambda: running(fleet, node), "the stream is there")
    for other in fleet.nodes:
        if other is not node:
            await fleet.override(other.name)
    return stream


async def read_stream(fleet: Fleet) -> str:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": int(STREAM_S * TOKENS_PER_S),
        "stream": True,
    }
    async with fleet.session.post(fleet.envoy.url + STREAM_PATH, json=body) as response:
        assert response.status == 200
        return await response.text()


async def running(fleet: Fleet, node: FakeNode) -> bool:
    rows = {row["name"]: row for row in await fleet.node_rows()}
    return bool(rows[node.name]["running"])


async def draining_in_envoy(fleet: Fleet) -> bool:
    stats = await fleet.envoy.stats("^cluster.isocost_nodes.membership_healthy$")
    return stats == {"cluster.isocost_nodes.membership_healthy": 3}


async def decided(fleet: Fleet, reason: str) -> bool:
    """A burst, every request of which was decided so."""
    before = len(fleet.envoy.access_log())
    await fleet.complete(20)
    entries = (await fleet.envoy.logged(before + 20))[before:]
    return all(decision_fields(entry)["reason"] == reason for entry in entries)


async def require_none_on(
    fleet: Fleet, node: FakeNode, before: int, count: int, reason: str
) -> None:
    entries = (await fleet.envoy.logged(before + count))[before:]
    assert {decision_fields(entry)["reason"] for entry in entries} == {reason}
    assert {entry["node"] for entry in entries} == {
        other.name for other in fleet.nodes if other is not node
    }


async def serves(fleet: Fleet, node: FakeNode) -> bool:
    before = len(fleet.envoy.access_log())
    await fleet.complete(20)
    entries = (await fleet.envoy.logged(before + 20))[before:]
    return any(entry["node"] == node.name for entry in entries)


def logged_on(fleet: Fleet, node: FakeNode, path: str) -> list[dict[str, Any]]:
    log = fleet.envoy.access_log()
    return [entry for entry in log if entry["node"] == node.name and entry["path"] == path]
