"""New weights five times a second for 500 nodes: Envoy rebuilds no cluster, and hardly works."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any

import psutil

from isocost.model import Node, NodeSample, measured
from tests.integration.harness.announcer import Announcer, healthy_sample
from tests.integration.harness.fleet import START_S
from tests.integration.harness.gateway import wait_for_members
from tests.integration.harness.stand_in_fleet import StandInFleet
from tests.integration.harness.wait import wait_until

NODES = 500
#: Five seconds of tables.
TABLES = 25
#: A table has at least nine bytes for each node.
TABLE_BYTES = 9 * NODES
#: A quarter of what a card's link carries: the weights go up and down by as much.
MOST_PCIE_BYTES_PER_S = 32e9
#: The fallback's weights follow every 10 s, so one such update may fall into the five seconds.
ENDPOINT_UPDATES = 1
#: Of a core, with two workers that read every table: ten times what a machine measures that does
#: nothing else.
ENVOY_CPU = 0.15


async def test_weights_of_a_fleet_at_rest_rebuild_no_cluster_and_cost_envoy_little(
    stand_in_fleet: StandInFleet,
) -> None:
    fleet, chance = stand_in_fleet, random.Random(1)

    def changing(node: Node) -> NodeSample:
        sample = healthy_sample(node)
        busy = measured(chance.uniform(0.0, MOST_PCIE_BYTES_PER_S))
        return replace(sample, gpus=(replace(sample.gpus[0], pcie_bytes_per_s=busy),))

    fleet.start_control_plane()
    fleet.start_gateway()
    nodes = [
        Node(
            f"node-{n}", f"node-{n}@1", f"192.0.2.{n % 250}:{8000 + n // 250}", "rack", f"host-{n}"
        )
        for n in range(NODES)
    ]
    async with Announcer(fleet.grpc_port, nodes, changing):
        await wait_for_members(fleet.envoy, NODES, NODES, START_S)
        first = await tables(fleet)
        before, received = await updates(fleet), await received_bytes(fleet)
        cpu_s, begin_s = envoy_cpu_s(fleet), time.monotonic()
        weights = await shown_weights(fleet)

        async def pushed() -> bool:
            return await tables(fleet) >= first + TABLES

        await wait_until(pushed, f"{TABLES} tables")
        share = (envoy_cpu_s(fleet) - cpu_s) / (time.monotonic() - begin_s)
        moved = {name: count - before[name] for name, count in (await updates(fleet)).items()}
        received = await received_bytes(fleet) - received
        again = await shown_weights(fleet)
    print(f"Envoy {share:.3f} of a core, {received} bytes; moved {moved}")
    assert received >= TABLES * TABLE_BYTES
    changed = sum(weights[name] != again[name] for name in weights)
    assert changed > NODES / 2
    endpoints = moved.pop("cluster.isocost_nodes.update_success")
    assert endpoints <= ENDPOINT_UPDATES
    assert moved.pop("cluster_manager.cluster_updated") <= endpoints
    assert not any(moved.values()), moved
    assert share <= ENVOY_CPU


async def tables(fleet: StandInFleet) -> int:
    """How many were made."""
    return int((await fleet.status())["push"]["tables"])


async def shown_weights(fleet: StandInFleet) -> dict[str, Any]:
    return {row["name"]: row["weight"] for row in await fleet.node_rows()}


async def updates(fleet: StandInFleet) -> dict[str, int]:
    """What Envoy counts when it takes a cluster or its endpoints, or builds them anew."""
    return await fleet.envoy.stats(
        "^cluster_manager.(cluster_(added|modified|removed|updated|updated_via_merge)|"
        "update_merge_cancelled|update_out_of_merge_window)$|"
        "^cluster.isocost_nodes.(update_success|update_rejected|update_failure|membership_change)$"
    )


async def received_bytes(fleet: StandInFleet) -> int:
    """From the control plane."""
    stats = await fleet.envoy.stats("^cluster.isocost_control_plane.upstream_cx_rx_bytes_total$")
    return sum(stats.values())


def envoy_cpu_s(fleet: StandInFleet) -> float:
    times = psutil.Process(fleet.envoy.pid).cpu_times()
    return float(times.user + times.system)
