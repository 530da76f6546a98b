"""From a GPU that falls ill, through NVML and the agent, to a node that gets nothing new."""

from __future__ import annotations

import pytest

from tests.integration.harness.fleet import FakeNode, Fleet
from tests.integration.harness.wait import wait_until
from tests.integration.test_fake_machine import order_gpu, row_of

pytestmark = pytest.mark.side_by_side

WELL = ("serving", "ok", [])


async def shown(fleet: Fleet, node: FakeNode) -> tuple[str, str, list[str]]:
    """State, reason and rows of the health table."""
    row = await row_of(fleet, node)
    return row["state"], row["reason"], [item["row"] for item in row["health_findings"]]


async def until(fleet: Fleet, node: FakeNode, *expected: object, within_s: float = 20.0) -> None:
    async def there() -> bool:
        return await shown(fleet, node) == expected

    await wait_until(there, f"{expected}", within_s)


async def test_what_a_gpu_shows_acts_on_its_node_and_ends_with_it(fleet: Fleet) -> None:
    await fleet.start(3)
    ill, *others = fleet.nodes
    for node in fleet.nodes:
        await until(fleet, node, *WELL, within_s=60.0)

    await order_gpu(fleet, ill, {"clocks_event_reasons": 0x40})
    await until(fleet, ill, "serving", "ok", ["clocks_slowed"])
    assert (await row_of(fleet, ill))["health"] == 0.5
    await order_gpu(fleet, ill, {"clocks_event_reasons": None, "rows_pending": 1})
    await until(fleet, ill, "draining", "hardware", ["row_remap_pending", "clocks_slowed"])
    await until(fleet, ill, "draining", "hardware", ["row_remap_pending"])
    assert (await row_of(fleet, ill))["weight"] == 0.0
    await order_gpu(fleet, ill, {"rows_pending": None})
    await until(fleet, ill, *WELL, within_s=40.0)

    await order_gpu(fleet, ill, {"xids": "31,48"})
    await until(fleet, ill, "ejected", "hardware", ["xid_fatal", "xid_application"])
    for node in others:
        assert await shown(fleet, node) == WELL
