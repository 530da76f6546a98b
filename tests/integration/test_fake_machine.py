"""Fake GPUs through NVML to the control plane: what the cards say follows the load, and orders."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from isocost.fake.machine import agent_environment
from isocost.fake.telemetry import BUSY_PCIE_BYTES_PER_S, BUSY_UTILISATION
from tests.integration.conftest import StartIsocost
from tests.integration.harness.fleet import HARDWARE, MODEL, FakeNode, Fleet
from tests.integration.harness.wait import wait_until

#: PCIe traffic that counts as saturated, by default.
PCIE_CAPACITY = 128e9
LINKS = HARDWARE.card.nvlink_links
TOTAL = HARDWARE.card.vram_total_bytes
POOL = HARDWARE.kv_pool_tokens * HARDWARE.model.kv_bytes_per_token


async def test_the_nodes_gpus_follow_their_load_and_show_what_their_hardware_is_ordered(
    fleet: Fleet, start_isocost: StartIsocost
) -> None:
    await fleet.start(2)
    busy, idle = fleet.nodes
    rest = {
        "free_vram_share": pytest.approx((HARDWARE.vram_free_bytes + POOL) / TOTAL),
        "pcie_utilisation": 0.0,
        "health": 1.0,
    }
    await wait_until(lambda: shows(fleet, busy, rest), "the GPU at rest", 60)

    load = asyncio.create_task(keep_busy(fleet, busy))
    pcie = pytest.approx(BUSY_PCIE_BYTES_PER_S / PCIE_CAPACITY, rel=0.01)
    try:
        await wait_until(lambda: shows(fleet, busy, {"pcie_utilisation": pcie}), "PCIe traffic")
        row = await row_of(fleet, busy)
        used = row["kv_usage"] * POOL
        assert used > 0
        assert row["free_vram_share"] == pytest.approx(
            (HARDWARE.vram_free_bytes + POOL - used) / TOTAL, abs=0.01
        )
        assert await shows(fleet, idle, rest)
        gpus = {node["node"]["name"]: node["gpus"][0] for node in await once(fleet, start_isocost)}
        assert gpus[busy.name]["gpu_utilisation"]["value"] == pytest.approx(
            BUSY_UTILISATION, abs=0.02
        )
        assert gpus[idle.name]["gpu_utilisation"]["value"] == 0.0
        for gpu in gpus.values():
            assert gpu["vram_total_bytes"]["value"] == TOTAL
            assert gpu["vram_free_bytes"]["value"] == HARDWARE.vram_free_bytes
    finally:
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
    await wait_until(lambda: shows(fleet, busy, rest), "the GPU at rest again")

    half = {f"nvlink.{link}.active": 0 for link in range(LINKS // 2)}
    await order_gpu(fleet, busy, half)
    await wait_until(lambda: shows(fleet, busy, {"health": 0.5}), "links that are down")
    listed = await printed(start_isocost, "nodes", "--http", fleet.http, "--json")
    health = {row["name"]: row["health"] for row in listed["nodes"]}
    assert health == {busy.name: 0.5, idle.name: 1.0}
    await order_gpu(fleet, busy, dict.fromkeys(half))
    await wait_until(lambda: shows(fleet, busy, rest), "links that are up again")


async def row_of(fleet: Fleet, node: FakeNode) -> dict[str, Any]:
    (row,) = [row for row in await fleet.node_rows() if row["name"] == node.name]
    return row


async def shows(fleet: Fleet, node: FakeNode, values: dict[str, Any]) -> bool:
    row = await row_of(fleet, node)
    return {key: row[key] for key in values} == values


async def once(fleet: Fleet, start_isocost: StartIsocost) -> list[dict[str, Any]]:
    """The nodes as an agent of the machine samples them now."""
    environment = agent_environment(fleet.machine)
    arguments = ("agent", "--config", str(fleet.agent_config), "--once", "--json")
    answer = await printed(start_isocost, *arguments, environment=environment)
    return list(answer["nodes"])


async def printed(start_isocost: StartIsocost, *arguments: str, **more: Any) -> dict[str, Any]:
    process = start_isocost(*arguments, **more)
    await wait_until(lambda: not process.running, "its end", 30)
    assert process.stop() == 0, process.messages()
    return dict(json.loads(process.stdout.read_text()))


async def order_gpu(fleet: Fleet, node: FakeNode, keys: dict[str, Any]) -> None:
    async with fleet.session.post(f"{node.url}/fake/gpus", json={"0": keys}) as response:
        assert response.status == 200, await response.text()


async def keep_busy(fleet: Fleet, node: FakeNode) -> None:
    """Eight long requests at once, straight to the node, until it is cancelled."""
    body = {"model": MODEL, "prompt": "x" * 80_000, "max_tokens": 2000}

    async def ask() -> None:
        while True:
            async with fleet.session.post(f"{node.url}/v1/completions", json=body) as response:
                assert response.status == 200, await response.text()
                await response.read()

    await asyncio.gather(*(ask() for _ in range(8)))
