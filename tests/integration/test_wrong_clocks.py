"""Clocks that are seconds off bring their nodes no traffic, though ages decide where it goes."""

from __future__ import annotations

import pytest

from tests.integration.harness.completion_load import CompletionLoad
from tests.integration.harness.fleet import (
    FakeNode,
    Fleet,
    break_node,
    heal_node,
    requests_per_node,
)
from tests.integration.harness.wait import wait_until

NODES = 8
FAIR = 1 / NODES
PER_S = 60
REQUESTS = 900


@pytest.mark.parametrize("wrong", [1, 2])
async def test_a_clock_that_is_five_seconds_behind_makes_no_node_look_idle(
    fleet: Fleet, wrong: int
) -> None:
    await fleet.start(NODES, "min_entropy")
    off = fleet.nodes[-wrong:]
    async with CompletionLoad(fleet, PER_S, max_tokens=200) as load:
        for node in off:
            await break_node(fleet.session, node, "clock_skew", seconds=-5)
        await wait_until(lambda: doubted(fleet, off), "the clocks are found", 10)
        before = load.sent
        began = len(fleet.envoy.access_log())
        await wait_until(lambda: load.sent >= before + REQUESTS, "load", 60)
        entries = fleet.envoy.access_log()[began:]
        for node in off:
            await heal_node(fleet.session, node)
        await wait_until(lambda: doubted(fleet, []), "the clocks are right again", 10)
    share = {name: count / len(entries) for name, count in requests_per_node(entries).items()}
    print(share)
    assert load.failures == []
    for node in off:
        assert 0.5 * FAIR < share[node.name] < 1.25 * FAIR, share


async def doubted(fleet: Fleet, nodes: list[FakeNode]) -> bool:
    """Exactly those clocks are not believed, and they say by how much they are off."""
    rows = {row["name"]: row for row in await fleet.node_rows()}
    found = {name for name, row in rows.items() if "clock_skew" in row["guards"]}
    return found == {node.name for node in nodes} and all(
        rows[name]["clock_offset_ms"] == pytest.approx(-5000, abs=500) for name in found
    )
