"""Two Envoys of which one has nine times the traffic of the other: each counts for what it is."""

from __future__ import annotations

import pytest

from tests.integration.conftest import StartBackend
from tests.integration.harness.burst import Entries, burst, by_table, make_one_the_best
from tests.integration.harness.fleet import requests_per_node
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.steady_load import SteadyLoad
from tests.integration.harness.wait import wait_until

NODES = 8
SHARES = {"edge-1": 0.9, "edge-2": 0.1}
PER_S = 100
REQUESTS = 200
#: In a burst that two tables decide, the part of one may be too small for a bound.
ENOUGH = REQUESTS / 2
BURSTS = 8
#: What is left of the start is forgotten by half in two seconds; the rest is for a busy machine.
SETTLED_S = 30.0


@pytest.mark.parametrize("policy", ["equal_cost", "min_entropy", "weighted_random"])
async def test_each_envoy_has_its_part_and_no_node_too_much_of_both_between_two_tables(
    stand_in_fleet: StandInFleet, start_backend: StartBackend, policy: str
) -> None:
    fleet = stand_in_fleet
    fleet.gateways = len(SHARES)
    backends = [await start_backend(f"node-{number}") for number in range(1, NODES + 1)]
    async with fleet.running(backends, policy=policy):
        if policy == "min_entropy":
            await make_one_the_best(fleet, backends)
        large, small = [
            SteadyLoad(envoy.url, share * PER_S)
            for envoy, share in zip(fleet.envoys, SHARES.values(), strict=True)
        ]
        async with large, small:
            await wait_until(lambda: shares_are_known(fleet, 0.02), "each has its part", SETTLED_S)
        assert large.failures + small.failures == []

        connections = [
            await fleet.connect(envoy)
            for envoy, share in zip(fleet.envoys, SHARES.values(), strict=True)
            for _ in range(round(share * REQUESTS))
        ]
        entries: Entries = []
        for _ in range(BURSTS):
            entries += await burst(fleet, backends, connections)
        assert await shares_are_known(fleet, 0.05)
    most = []
    for decided in by_table(entries).values():
        share = len(decided) / NODES
        if len(decided) >= ENOUGH:
            most.append((len(decided), max(requests_per_node(decided).values())))
            assert most[-1][1] <= max(1.25 * share, share + 2), requests_per_node(decided)
    print(f"{policy}: requests of both Envoys by one table, and the most on one node: {most}")
    assert most


async def shares_are_known(fleet: StandInFleet, tolerance: float) -> bool:
    """Has each Envoy its part of the requests, as the tables give it to the filters?"""
    envoys = (await fleet.status())["envoys"]
    shown = {name: envoy["share"] or 0.0 for name, envoy in envoys.items()}
    return shown.keys() == SHARES.keys() and shown == pytest.approx(SHARES, abs=tolerance)
