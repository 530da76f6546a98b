"""Between two tables no burst herds, though every worker of every Envoy has the same table."""

from __future__ import annotations

import pytest

from tests.benchmark.bench_json import at_most, record
from tests.integration.conftest import StartBackend
from tests.integration.harness.burst import burst, by_table, make_one_the_best
from tests.integration.harness.fleet import requests_per_node
from tests.integration.harness.stand_in_fleet import StandInFleet

NODES = 8
REQUESTS = 200
MEAN = REQUESTS / NODES
BURSTS = 5
#: A burst that more than one table decides does not count: every third or so.
MOST_TRIES = 60


@pytest.mark.parametrize("policy", ["equal_cost", "min_entropy", "weighted_random"])
async def test_no_node_gets_more_than_a_quarter_over_its_share_of_a_burst(
    stand_in_fleet: StandInFleet, start_backend: StartBackend, policy: str
) -> None:
    most = await most_of_bursts(stand_in_fleet, start_backend, policy, is_spread=True)
    shares = tuple(count / MEAN for count in most)
    figure = at_most(f"burst.max_share.{policy}", max(shares), "of its share", 1.25, shares)
    record(figure)
    assert figure.ok


async def test_without_projection_and_dispersion_one_node_gets_the_whole_burst(
    stand_in_fleet: StandInFleet, start_backend: StartBackend
) -> None:
    most = await most_of_bursts(stand_in_fleet, start_backend, "min_entropy", is_spread=False)
    assert min(most) == REQUESTS


async def most_of_bursts(
    fleet: StandInFleet, start_backend: StartBackend, policy: str, is_spread: bool
) -> list[int]:
    """What the node with the most requests got, of each burst that one table decided alone."""
    fleet.gateways = 2
    backends = [await start_backend(f"node-{number}") for number in range(1, NODES + 1)]
    settings = {"policy": policy, "projection": is_spread, "dispersion": is_spread}
    async with fleet.running(backends, filter=settings):
        if policy == "min_entropy":
            await make_one_the_best(fleet, backends)
        connections = [
            await fleet.connect(envoy)
            for envoy in fleet.envoys
            for _ in range(REQUESTS // len(fleet.envoys))
        ]
        # With these every worker has shown its part of the requests.
        decided_before = set[int]()
        for _ in range(2):
            decided_before |= by_table(await burst(fleet, backends, connections)).keys()
        most: list[int] = []
        for tried in range(1, MOST_TRIES + 1):
            tables = by_table(await burst(fleet, backends, connections))
            if len(tables) == 1 and not tables.keys() & decided_before:
                (entries,) = tables.values()
                most.append(max(requests_per_node(entries).values()))
            decided_before |= tables.keys()
            if len(most) == BURSTS:
                print(f"{policy}, spread {is_spread}: {most} on one node; {tried} bursts")
                return most
    raise AssertionError(f"one table decided only {len(most)} of {MOST_TRIES} bursts")
