"""A node that has just started is idle, and yet gets only what a cold engine bears."""

from __future__ import annotations

import pytest

from isocost.config import StateSettings
from isocost.model import NodeState
from tests.integration.harness.completion_load import CompletionLoad
from tests.integration.harness.fleet import Fleet, requests_per_node, table_of
from tests.integration.harness.table_recorder import TableRecorder
from tests.integration.harness.wait import wait_until

NODES = 4
FAIR = 1 / NODES
PER_S = 100
STATES = StateSettings()


@pytest.mark.parametrize("policy", ["equal_cost", "min_entropy", "weighted_random"])
async def test_a_node_that_starts_gets_its_ramp_and_then_its_share(
    fleet: Fleet, policy: str
) -> None:
    await fleet.start(NODES, policy)
    new = fleet.nodes[-1]
    fleet.processes[new.name].kill()
    await wait_until(lambda: fleet.serving(NODES - 1), "it is gone")
    async with (
        TableRecorder(fleet.grpc_port) as recorder,
        CompletionLoad(fleet, PER_S, max_tokens=20) as load,
    ):
        fleet.start_node(new)
        await wait_until(lambda: fleet.serving(NODES), "it serves", STATES.slow_start_s + 20)
        after = load.sent + 3 * PER_S
        await wait_until(lambda: load.sent >= after, "load while it serves")
    assert load.failures == []

    warming = [
        version
        for version, table in recorder.tables.items()
        if table.state.get(new.name) == NodeState.WARMING
    ]
    first, last = min(warming), max(warming)
    middle = (first + last) / 2
    log = fleet.envoy.access_log()

    def part(begin: float, end: float) -> float:
        counts = requests_per_node(entry for entry in log if begin <= table_of(entry) < end)
        return counts[new.name] / counts.total()

    early, late, serving = part(first, middle), part(middle, last), part(last + 1, float("inf"))
    print(f"{policy}: {early:.3f} of the requests, {late:.3f}, then {serving:.3f}")
    assert 0 < early < 0.6 * FAIR
    assert early < late < 1.2 * FAIR
    assert 0.7 * FAIR < serving < 1.4 * FAIR
