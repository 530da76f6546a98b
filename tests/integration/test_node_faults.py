"""Nodes that die, hang or fail fast are out in time, and back when they are well."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from isocost.config import StateSettings
from isocost.model import NodeState
from tests.integration.harness.completion_load import CompletionLoad
from tests.integration.harness.fleet import Fleet, break_node, heal_node, table_of
from tests.integration.harness.table_recorder import Recorded, TableRecorder
from tests.integration.harness.wait import wait_until

NODES = 4
FAIR = 1 / NODES
PER_S = 60
STATES = StateSettings()


async def wait_for_table(
    recorder: TableRecorder, condition: Callable[[Recorded], bool], what: str, deadline_s: float
) -> tuple[int, float]:
    """Version of the first table from now on that is so, and how long it took to come."""
    started_s = time.time()
    version, table = await wait_until(
        lambda: recorder.first_where(condition, started_s), what, deadline_s
    )
    return version, table.arrived_unix_s - started_s


@pytest.mark.parametrize("policy", ["equal_cost", "weighted_random"])
async def test_a_killed_node_costs_no_request_and_is_not_picked_again(
    fleet: Fleet, policy: str
) -> None:
    await fleet.start(NODES, policy)
    async with (
        TableRecorder(fleet.grpc_port) as recorder,
        CompletionLoad(fleet, PER_S, max_tokens=200) as load,
    ):
        await wait_until(lambda: load.sent >= PER_S, "load")
        fleet.processes["node-2"].kill()
        version, took_s = await wait_for_table(
            recorder, lambda table: not table.state["node-2"].eligible, "a table without it", 5
        )
        # The next seconds of load are picked from tables that say so.
        after = load.sent + 3 * PER_S
        await wait_until(lambda: load.sent >= after, "load after the kill")
    print("killed node out after", round(took_s, 3), "s;", load.sent, "requests")
    assert load.failures == []
    assert took_s <= 1.0
    later = [entry for entry in fleet.envoy.access_log() if table_of(entry) >= version]
    assert len(later) >= 2 * PER_S
    assert {entry["node"] for entry in later} == {"node-1", "node-3", "node-4"}
    assert {entry["attempts"] for entry in later} == {1}


async def test_a_node_that_hangs_with_a_green_health_page_is_out_within_ten_seconds(
    fleet: Fleet,
) -> None:
    await fleet.start(NODES)
    node = fleet.nodes[1]
    async with (
        TableRecorder(fleet.grpc_port) as recorder,
        CompletionLoad(fleet, PER_S, max_tokens=20) as load,
    ):
        await wait_until(lambda: load.sent >= PER_S, "load")
        await break_node(fleet.session, node, "hang")
        _, took_s = await wait_for_table(
            recorder, lambda table: not table.state[node.name].eligible, "it is out", 15
        )
        async with fleet.session.get(f"{node.url}/health") as response:
            assert response.status == 200
        await heal_node(fleet.session, node)
        await wait_for_table(recorder, serving(node.name), "it serves again", 60)
    print("hung node out after", round(took_s, 1), "s")
    assert took_s <= 10.0
    assert load.failures == []


async def test_a_node_that_fails_fast_loses_its_share_and_gets_it_back(fleet: Fleet) -> None:
    await fleet.start(NODES)
    node = fleet.nodes[1]
    async with (
        TableRecorder(fleet.grpc_port) as recorder,
        CompletionLoad(fleet, PER_S, max_tokens=20) as load,
    ):
        await wait_until(lambda: load.sent >= PER_S, "load")
        await break_node(fleet.session, node, "status", status=500)
        failing_s = time.time()
        await wait_for_table(
            recorder, lambda table: table.share[node.name] < FAIR / 2, "less than its share", 5
        )
        await wait_for_table(
            recorder,
            lambda table: table.state[node.name] == NodeState.EJECTED,
            "it is ejected",
            failing_s + 10 - time.time(),
        )
        ejected_after_s = time.time() - failing_s
        await heal_node(fleet.session, node)
        _, back_s = await wait_for_table(
            recorder, lambda table: table.state[node.name] == NodeState.WARMING, "it warms", 60
        )
        _, whole_s = await wait_for_table(
            recorder,
            lambda table: table.share[node.name] > 0.9 * FAIR,
            "its full share",
            STATES.slow_start_s + 1,
        )
        await wait_for_table(recorder, serving(node.name), "it serves", 5)
    print(
        f"ejected after {ejected_after_s:.1f} s, warming {back_s:.1f} s after it healed,", end=" "
    )
    print(f"full share {whole_s:.1f} s later; {load.sent} requests")
    assert load.failures == []


def serving(name: str) -> Callable[[Recorded], bool]:
    return lambda table: table.state[name] == NodeState.SERVING


async def test_fifty_client_errors_change_neither_state_nor_share(fleet: Fleet) -> None:
    await fleet.start(NODES)
    node = fleet.nodes[1]
    async with TableRecorder(fleet.grpc_port) as recorder:
        for status in (400, 413, 422):
            await break_node(fleet.session, node, "status", status=status)
            async with CompletionLoad(fleet, PER_S, max_tokens=1) as load:
                await wait_until(lambda load=load: len(load.failures) >= 17, "client errors")
            assert set(load.failures) == {str(status)}
        await wait_until(lambda: client_errors(fleet, node.name, 50), "all of them are reported")
        counted = len(recorder.tables)
        await wait_until(lambda: len(recorder.tables) >= counted + 3, "tables after that")
    for table in recorder.tables.values():
        assert set(table.state.values()) == {NodeState.SERVING}
        assert abs(table.share[node.name] - FAIR) < 0.02


async def client_errors(fleet: Fleet, name: str, wanted: int) -> bool:
    """Do the gateways report that many client errors of the node?"""
    rows = {row["name"]: row for row in await fleet.node_rows()}
    return bool(rows[name]["outcomes"]["client_errors"] >= wanted)
