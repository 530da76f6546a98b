"""What is unsupported, absent, stale and measured stays apart, from the cards to the operator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import StartIsocost
from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process
from tests.integration.harness.wait import wait_until
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library
from tests.unit.telemetry.page_server import PageServer, page_server

pytestmark = pytest.mark.side_by_side

START_S = 30.0
GPUS = {
    "gpus": "a,b",
    "a.memory_total": 1000,
    "a.memory_used": 400,
    "a.temperature": "!3",
    "a.ecc_uncorrected": "!999",
    "a.pcie_width": 16,
    "a.pcie_ms": 1,
    "b.pcie_ms": 1,
}


@dataclass
class Machine:
    """A machine whose agent reports to a control plane, which commands ask."""

    gpus: FakeGpus
    page: PageServer
    agent: Process
    start_isocost: StartIsocost
    http: str

    async def nodes(self) -> dict[str, Any]:
        """By node, its signals as `isocost nodes --json` prints them."""
        process = self.start_isocost("nodes", "--http", self.http, "--json")
        await wait_until(lambda: not process.running, "its end", START_S)
        text = process.stdout.read_text()
        # Not yet listening.
        rows = json.loads(text)["nodes"] if text else []
        return {row["name"]: row["signals"] for row in rows}

    async def gpu(self) -> dict[str, Any] | None:
        nodes = await self.nodes()
        return dict(nodes["n1"]["gpus"][0]) if "n1" in nodes else None

    async def until(self, what: str, **states: str) -> dict[str, Any]:
        """Until the GPU's signals have these states."""

        async def shown() -> dict[str, Any] | None:
            gpu = await self.gpu()
            if gpu is None or gpu["health"] is None:
                return None
            flat = {**gpu, **gpu["health"]}
            return flat if {name: flat[name]["state"] for name in states} == states else None

        return await wait_until(shown, what, START_S)


@pytest.fixture
async def machine(start_isocost: StartIsocost, tmp_path: Path) -> AsyncIterator[Machine]:
    build_library()
    gpus = FakeGpus(tmp_path, **GPUS)
    grpc, http = free_port(), free_port()
    start_isocost(
        *("control-plane", "--listen", f"127.0.0.1:{grpc}", "--http", f"127.0.0.1:{http}")
    )
    async with page_server() as page:
        node = page.settings.model_dump(mode="json", exclude_defaults=True)
        node |= {"dcgm_url": None, "gpus": ["GPU-a"]}
        file = tmp_path / "agent.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "name": "a1",
                    "control_plane": f"127.0.0.1:{grpc}",
                    "http": None,
                    "procfs": str(tmp_path),
                    "nodes": [node],
                }
            )
        )
        agent = start_isocost("agent", "--config", str(file), environment=gpus.environment)
        yield Machine(gpus, page, agent, start_isocost, f"127.0.0.1:{http}")


async def test_unknown_states_are_kept_apart_up_to_the_operator(machine: Machine) -> None:
    shown = await machine.until("all was read", vram_free_bytes="measured", pcie_width="measured")
    assert shown["vram_free_bytes"]["value"] == 600 and shown["pcie_width"]["value"] == 16
    assert shown["temperature_celsius"] == {"state": "unsupported"}
    assert shown["ecc_uncorrected"] == {"state": "absent"}
    nodes = await machine.nodes()
    # No such file: the rate should be there and is not.
    assert nodes["n1"]["net_bytes_per_s"] == {"state": "absent"}
    assert nodes["n1"]["engine"]["waiting"] == {"state": "absent"}
    assert nodes["n1"]["gpus"][0]["lost"] is False

    # What cannot be read any more is its last value, and old.
    machine.gpus.set({"a.memory_v2": "!999", "a.memory_total": "!999", "a.pcie_width": "!999"})
    shown = await machine.until("they are stale", vram_free_bytes="stale", pcie_width="stale")
    assert shown["vram_free_bytes"]["value"] == 600 and shown["vram_free_bytes"]["age_s"] > 0
    assert shown["temperature_celsius"] == {"state": "unsupported"}
    assert shown["gpu_utilisation"]["state"] == "measured"

    machine.gpus.unset("a.memory_v2", "a.memory_total", "a.pcie_width", "a.ecc_uncorrected")
    shown = await machine.until(
        "they are back",
        vram_free_bytes="measured",
        pcie_width="measured",
        ecc_uncorrected="measured",
    )
    assert shown["ecc_uncorrected"]["value"] == 0

    # An agent that is gone: nothing is measured now, and what is not supported is still not.
    machine.agent.kill()
    shown = await machine.until(
        "all is stale",
        vram_free_bytes="stale",
        pcie_width="stale",
        ecc_uncorrected="stale",
        temperature_celsius="unsupported",
    )
    assert shown["pcie_width"]["value"] == 16 and shown["pcie_width"]["age_s"] > 1.0


async def test_a_lost_gpu_and_one_that_is_not_listed_are_shown(machine: Machine) -> None:
    await machine.until("all was read", vram_free_bytes="measured", pcie_width="measured")
    machine.gpus.set({"gpus": "b"})
    shown = await machine.until("it is lost", vram_free_bytes="stale", pcie_width="stale")
    assert shown["lost"] is True and shown["vram_free_bytes"]["value"] == 600
    machine.gpus.set({"gpus": "a,b"})
    shown = await machine.until("it is back", vram_free_bytes="measured", pcie_width="measured")
    assert shown["lost"] is False
