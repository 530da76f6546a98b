"""A node whose network becomes slow is routed around, under every policy, and is back when it is
well. equal_cost does that by itself as well: to it such a node is a slow one.
"""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from isocost.model import NodeState
from tests.integration.harness.completion_load import CompletionLoad
from tests.integration.harness.fleet import Fleet, break_node, heal_node
from tests.integration.harness.table_recorder import TableRecorder
from tests.integration.harness.wait import wait_until

NODES = 4
FAIR = 1 / NODES
PER_S = 80
#: Shares are over so many seconds: long enough that chance is a tenth of them.
OVER_S = 4.0
NOTICED_S = 3.0
BACK_S = 10.0
SERVING, SUSPECT = NodeState.SERVING, NodeState.SUSPECT


@pytest.mark.parametrize("policy", ["weighted_random", "min_entropy", "equal_cost"])
async def test_a_node_with_a_slow_network_loses_half_of_its_share_and_gets_it_back(
    fleet: Fleet, policy: str
) -> None:
    await fleet.start(NODES, policy)
    node = fleet.nodes[1]
    async with (
        TableRecorder(fleet.grpc_port) as recorder,
        CompletionLoad(fleet, PER_S, max_tokens=40, stream=True) as load,
    ):
        await wait_until(lambda: all_judged(fleet), "what is usual is known", 30)
        broken_s = time.time()
        await break_node(fleet.session, node, "delay", ms=100, jitter_ms=20)
        await wait_for_load(load, NOTICED_S + OVER_S)
        reasons = {row["name"]: row["reason"] for row in await fleet.node_rows()}
        await heal_node(fleet.session, node)
        healed_s = time.time()
        await wait_for_load(load, BACK_S)
    assert load.failures == []
    before = share(fleet, node.name, broken_s - OVER_S)
    broken = share(fleet, node.name, broken_s + NOTICED_S)
    after = share(fleet, node.name, healed_s + BACK_S - OVER_S)
    print(f"{policy}: of a fair share before {before:.2f}, broken {broken:.2f}, after {after:.2f}")
    assert broken < 0.5
    assert after > 0.8
    if policy != "equal_cost":
        assert reasons == {**dict.fromkeys(reasons, "ok"), node.name: "jitter"}
    later = [table for table in recorder.tables.values() if table.arrived_unix_s > broken_s]
    assert {table.state[node.name] for table in later} <= {SERVING, SUSPECT}
    others = [item.name for item in fleet.nodes if item is not node]
    assert {table.state[name] for table in later for name in others} == {SERVING}


async def test_a_node_that_was_always_far_away_serves_as_any_other(fleet: Fleet) -> None:
    """Until it is even farther away."""
    await fleet.start(NODES)
    node = fleet.nodes[1]
    await break_node(fleet.session, node, "delay", ms=60, jitter_ms=10)
    async with CompletionLoad(fleet, PER_S, max_tokens=40, stream=True) as load:
        await wait_until(lambda: all_judged(fleet), "what is usual is known", 30)
        await wait_for_load(load, OVER_S)
        rows = {row["name"]: row for row in await fleet.node_rows()}
        assert rows[node.name]["reason"] == "ok"
        began_s = time.time()
        await break_node(fleet.session, node, "delay", ms=160, jitter_ms=20)
        await wait_for_load(load, NOTICED_S + OVER_S)
    assert share(fleet, node.name, began_s - OVER_S) > 0.8
    assert share(fleet, node.name, began_s + NOTICED_S) < 0.5


async def all_judged(fleet: Fleet) -> bool:
    """Is it known of all nodes what is usual there?"""
    for node in fleet.nodes:
        async with fleet.session.get(f"{fleet.http}/v1/nodes/{node.name}/why") as response:
            if (await response.json())["late_ms"] is None:
                return False
    return True


async def wait_for_load(load: CompletionLoad, seconds: float) -> None:
    until = load.sent + round(seconds * PER_S)
    await wait_until(lambda: load.sent >= until, "load", 2 * seconds + 10)


def share(fleet: Fleet, name: str, from_s: float) -> float:
    """Of the requests that began in a few seconds, as a part of a fair share."""
    nodes = [
        entry["node"]
        for entry in fleet.envoy.access_log()
        if from_s <= datetime.fromisoformat(entry["time"]).timestamp() < from_s + OVER_S
    ]
    return nodes.count(name) / len(nodes) / FAIR
