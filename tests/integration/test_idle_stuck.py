"""A node whose page says for ever that it is full is tried, and serves if it answers."""

from __future__ import annotations

import time

import pytest

from tests.integration.harness.completion_load import CompletionLoad
from tests.integration.harness.fleet import Fleet, order
from tests.integration.harness.wait import wait_until

pytestmark = pytest.mark.side_by_side

NODES = 4
PER_S = 60


@pytest.mark.parametrize("policy", ["weighted_random", "min_entropy", "equal_cost"])
async def test_a_node_that_reports_106_running_for_ever_gets_trial_requests(
    fleet: Fleet, policy: str
) -> None:
    await fleet.start(NODES, policy)
    node = fleet.nodes[1]
    await order(fleet.session, node, running=106, waiting=50, kv_usage=0.99)
    # As when it was avoided: no request of ours is there.
    await fleet.override(node.name, weight=0.0)
    async with CompletionLoad(fleet, PER_S, max_tokens=20) as load:
        await wait_until(lambda: found(fleet, node.name), "it is found", 25)
        await fleet.override(node.name)
        began, began_s = len(fleet.envoy.access_log()), time.monotonic()
        await wait_until(lambda: asked(fleet, began, node.name) > 0, "a request there", 60)
        took_s = time.monotonic() - began_s
        await wait_until(lambda: serving(fleet, node.name), "it serves", 60)
        before = load.sent
        await wait_until(lambda: load.sent >= before + 3 * PER_S, "load", 30)
    print("first request after", round(took_s, 1), "s")
    assert load.failures == []
    assert asked(fleet, began, node.name) > PER_S // 4


async def found(fleet: Fleet, name: str) -> bool:
    [row] = [row for row in await fleet.node_rows() if row["name"] == name]
    return "idle_stuck" in row["guards"]


async def serving(fleet: Fleet, name: str) -> bool:
    [row] = [row for row in await fleet.node_rows() if row["name"] == name]
    return bool(row["state"] == "serving")


def asked(fleet: Fleet, began: int, name: str) -> int:
    return sum(entry["node"] == name for entry in fleet.envoy.access_log()[began:])
