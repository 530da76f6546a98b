"""Telemetry that is old on every node costs no request: pages that nobody answers, and no agent."""

from __future__ import annotations

import pytest

from isocost.model import NodeState
from tests.integration.harness.completion_load import CompletionLoad
from tests.integration.harness.fleet import Fleet, break_node, heal_node, requests_per_node
from tests.integration.harness.table_recorder import TableRecorder
from tests.integration.harness.wait import wait_until

pytestmark = pytest.mark.side_by_side

NODES, PER_S = 4, 40
#: Signals are stale after a second and absent after five; after the fifth time-out of its page, ten
#: seconds, an engine would count as gone.
SILENT_PAGES_S = 16
#: Nodes of a silent agent are given up after three seconds, unless it is the only one.
AWAY_S = 10
ELIGIBLE = {NodeState.SERVING, NodeState.SUSPECT}


@pytest.mark.parametrize("policy", ["equal_cost", "min_entropy", "weighted_random"])
async def test_a_fleet_without_fresh_telemetry_serves_on(fleet: Fleet, policy: str) -> None:
    await fleet.start(NODES, policy)
    await wait_until(lambda: telling(fleet, NODES), "telemetry of all nodes", 20.0)
    before = len(fleet.envoy.access_log())
    async with (
        TableRecorder(fleet.grpc_port) as recorder,
        CompletionLoad(fleet, PER_S, max_tokens=20) as load,
    ):

        async def loaded(seconds: int) -> None:
            after = load.sent + seconds * PER_S
            await wait_until(lambda: load.sent >= after, "load without telemetry", 3 * seconds)

        for node in fleet.nodes:
            await break_node(fleet.session, node, "stale_metrics")
        await loaded(SILENT_PAGES_S)
        assert await telling(fleet, 0)
        for node in fleet.nodes:
            await heal_node(fleet.session, node)
        await wait_until(lambda: telling(fleet, NODES), "telemetry again", 20.0)
        fleet.agent.kill()
        await loaded(AWAY_S)
        rows = await fleet.node_rows()
    assert load.failures == []
    # All of the time every node could have requests, at its part of a share ...
    states = {state for table in recorder.tables.values() for state in table.state.values()}
    assert states <= ELIGIBLE
    for table in recorder.tables.values():
        assert min(*table.share.values(), *table.capacity_share.values()) > 0.0
        assert max(table.entropy.values()) < float("inf")
    # ... and had some.
    served = requests_per_node(fleet.envoy.access_log()[before:])
    assert min(served[node.name] for node in fleet.nodes) > 0.5 * load.sent / NODES
    assert {(row["state"], row["reason"]) for row in rows} == {("suspect", "collector_stale")}


async def telling(fleet: Fleet, count: int) -> bool:
    """So many nodes have a KV usage that is measured now."""
    states = (await fleet.status())["signals"]["nodes"]["kv_usage"]
    return bool(states["measured"] == count)
