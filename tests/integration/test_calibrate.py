"""`isocost calibrate` against a fake node: over HTTP, in real time."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import aiohttp
import pytest

from isocost.config import ControlPlaneConfig
from isocost.config_file import load
from isocost.fake.measured import MEASURED
from tests.integration.conftest import StartIsocost
from tests.integration.harness.bench_runs import ended
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until

H100 = MEASURED[("H100", "llama-3.1-8b", 1)]


@pytest.fixture
async def url(start_isocost: StartIsocost) -> str:
    """An H100's."""
    port = free_port()
    node = start_isocost("fake-node", "--listen", f"127.0.0.1:{port}", "--stream-chunks", "token")
    await wait_until(lambda: "listens" in node.stdout.read_text(), "the node listens")
    return f"http://127.0.0.1:{port}"


async def test_a_fake_nodes_constants_are_found_and_the_control_plane_takes_them(
    start_isocost: StartIsocost, url: str, tmp_path: Path
) -> None:
    """Within 20 % only: pieces arrive late by milliseconds on a machine that does other things,
    and what one sequence adds to a step are 21 us. In virtual time the bound is 5 %.
    """
    fragment = tmp_path / "entropy.yaml"
    run = start_isocost(
        *("calibrate", "--url", url, "--gpu-kind", "H100", "--lengths", "256,2048"),
        *("--seconds", "1", "--output", str(fragment), "--json"),
    )
    assert await ended(run) == 0, run.messages()
    found = json.loads(run.stdout.read_text())
    costs = {name: cost["value"] for name, cost in found["fit"]["seconds"].items()}
    assert costs["a step"] == pytest.approx(H100.step_s, rel=0.05)
    assert costs["KV cache"] == pytest.approx(H100.context_s, rel=0.2)
    prompt_s = H100.exposed_s(H100.prefill_s(2048, 0))
    assert costs["prompts of 2048"] == pytest.approx(prompt_s, rel=0.2)
    assert costs["open requests"] == pytest.approx(H100.sequence_s, rel=0.5)
    assert found["fit"]["condition"] < 15
    entropy = load(ControlPlaneConfig, fragment).entropy
    assert entropy.capacity == {"H100": 1.0}
    assert entropy.model_dump() == found["entropy_settings"]


async def test_ctrl_c_discards_what_was_measured_and_exits_with_130(
    start_isocost: StartIsocost, url: str, tmp_path: Path
) -> None:
    fragment = tmp_path / "entropy.yaml"
    run = start_isocost("calibrate", "--url", url, "--output", str(fragment))
    await wait_until(lambda: "1/11  alone" in run.messages(), "the first load was measured", 60.0)
    os.kill(run.pid, signal.SIGINT)
    assert await ended(run) == 130, run.messages()
    assert "what was measured is discarded" in run.messages()
    assert not fragment.exists()


async def test_an_engine_that_others_use_is_not_measured(
    start_isocost: StartIsocost, url: str, client: aiohttp.ClientSession
) -> None:
    body = {"prompt": "hi", "max_tokens": 100_000, "stream": True}
    async with client.post(f"{url}/v1/completions", json=body) as answer:
        await answer.content.readany()
        run = start_isocost("calibrate", "--url", url)
        assert await ended(run) == 3, run.messages()
    assert "1 requests that are not ours" in run.messages()
