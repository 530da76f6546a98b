"""Fake GPUs through NVML to the control plane: what the cards say follows the load, and orders."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from isocost.fake.telemetry import BUSY_PCIE_BYTES_PER_S, BUSY_UTILISATION
from tests.integration.conftest import StartIsocost
from tests.integration.harness.fleet import HARDWARE, MODEL, FakeNode, Fleet, order
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
        signals = await printed_signals(fleet, start_isocost)
        assert value(signals[busy.name]["gpus"][0], "gpu_utilisation") == pytest.approx(
            BUSY_UTILISATION, abs=0.02
        )
        assert value(signals[idle.name]["gpus"][0], "gpu_utilisation") == 0.0
        for told in signals.values():
            assert value(told, "cuda_handles") == 24
            assert value(told["gpus"][0], "vram_total_bytes") == TOTAL
            assert value(told["gpus"][0], "vram_free_bytes") == HARDWARE.vram_free_bytes
    finally:
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
    await wait_until(lambda: shows(fleet, busy, rest), "the GPU at rest again")

    half = {f"nvlink.{link}.active": 0 for link in range(LINKS // 2)}
    await order_gpu(fleet, busy, half)
    await wait_until(lambda: shows(fleet, busy, {"health": 0.5}), "links that are down")
    assert (await row_of(fleet, idle))["health"] == 1.0
    await order_gpu(fleet, busy, {**dict.fromkeys(half), "all": "!15"})

    async def lost() -> bool:
        signals = await printed_signals(fleet, start_isocost)
        return {name: told["gpus"][0]["lost"] for name, told in signals.items()} == {
            busy.name: True,
            idle.name: False,
        }

    await wait_until(lost, "a lost GPU")
    await order_gpu(fleet, busy, {"all": None})
    await wait_until(lambda: shows(fleet, busy, rest), "a GPU that is well again", 60)


def value(holder: dict[str, Any], signal: str) -> float:
    """Of a signal that must be fresh."""
    assert holder[signal]["state"] == "measured", holder
    return float(holder[signal]["value"])


async def test_an_ordered_network_rate_is_what_the_nodes_own_card_counts(
    fleet: Fleet, start_isocost: StartIsocost
) -> None:
    await fleet.start(2)
    one, other = fleet.nodes
    await order(fleet.session, one, net_bytes_per_s=5e6)

    async def counted() -> bool:
        signals = await printed_signals(fleet, start_isocost)
        assert value(signals[other.name], "net_bytes_per_s") < 1e5
        return value(signals[one.name], "net_bytes_per_s") == pytest.approx(5e6, rel=0.05)

    await wait_until(counted, "the rate over the whole window", 30)


async def row_of(fleet: Fleet, node: FakeNode) -> dict[str, Any]:
    (row,) = [row for row in await fleet.node_rows() if row["name"] == node.name]
    return row


async def shows(fleet: Fleet, node: FakeNode, values: dict[str, Any]) -> bool:
    row = await row_of(fleet, node)
    return {key: row[key] for key in values} == values


async def printed_signals(fleet: Fleet, start_isocost: StartIsocost) -> dict[str, Any]:
    """Every node's signals, as `isocost nodes --json` prints them."""
    process = start_isocost("nodes", "--http", fleet.http.removeprefix("http://"), "--json")
    await wait_until(lambda: not process.running, "the end of `isocost nodes`", 30)
    assert process.stop() == 0, process.messages()
    rows = json.loads(process.stdout.read_text())["nodes"]
    return {row["name"]: row["signals"] for row in rows}


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
