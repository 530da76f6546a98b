"""An engine whose page stands still while it answers: what the page said is not its load."""

from __future__ import annotations

from tests.integration.harness.completion_load import CompletionLoad
from tests.integration.harness.fleet import Fleet, break_node, heal_node, requests_per_node
from tests.integration.harness.wait import wait_until

NODES = 4
FAIR = 1 / NODES
PER_S = 60


async def test_a_page_that_stands_still_as_idle_does_not_draw_the_load(fleet: Fleet) -> None:
    await fleet.start(NODES, "min_entropy")
    node = fleet.nodes[1]
    # Nothing runs: the page repeats that there is nothing.
    await break_node(fleet.session, node, "frozen_metrics")
    async with CompletionLoad(fleet, PER_S, max_tokens=200) as load:
        await wait_until(lambda: is_frozen(fleet, node.name), "it is found", 15)
        states = (await fleet.status())["signals"]["nodes"]
        assert states["kv_usage"]["stale"] == states["waiting"]["stale"] == 1
        before, began = load.sent, len(fleet.envoy.access_log())
        await wait_until(lambda: load.sent >= before + 10 * PER_S, "load", 60)
        entries = fleet.envoy.access_log()[began:]
        await heal_node(fleet.session, node)
        await wait_until(lambda: is_well(fleet, node.name), "it is believed again", 30)
    share = requests_per_node(entries)[node.name] / len(entries)
    print("share", share)
    assert load.failures == []
    assert share < 1.5 * FAIR


async def is_frozen(fleet: Fleet, name: str) -> bool:
    return "frozen" in await guards(fleet, name)


async def is_well(fleet: Fleet, name: str) -> bool:
    return await guards(fleet, name) == []


async def guards(fleet: Fleet, name: str) -> list[str]:
    [row] = [row for row in await fleet.node_rows() if row["name"] == name]
    return list(row["guards"])
