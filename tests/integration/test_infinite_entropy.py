"""A node whose entropy is infinite gets nothing; lifted, it is back."""

from __future__ import annotations

import pytest

from tests.integration.harness.fleet import Fleet, requests_per_node
from tests.integration.harness.wait import wait_until


@pytest.mark.parametrize("policy", ["equal_cost", "min_entropy"])
async def test_infinite_entropy_steers_every_request_away_until_it_is_lifted(
    fleet: Fleet, policy: str
) -> None:
    await fleet.start(4, policy)
    await fleet.override("node-2", entropy="inf")
    version = await fleet.next_table()
    await wait_until(lambda: fleet.picks_from(version), "every worker has that table")
    before = len(fleet.envoy.access_log())
    await fleet.complete(2000)
    entries = (await fleet.envoy.logged(before + 2000))[before:]
    assert all(f"policy={policy} reason=picked" in entry["decision"] for entry in entries)
    counts = requests_per_node(entries)
    assert counts["node-2"] == 0
    assert sum(counts.values()) == 2000
    await fleet.override("node-2")
    await wait_until(lambda: serves(fleet, "node-2"), "the node serves again")


async def serves(fleet: Fleet, name: str) -> bool:
    before = len(fleet.envoy.access_log())
    await fleet.complete(20)
    return name in requests_per_node((await fleet.envoy.logged(before + 20))[before:])
