"""`isocost bench` with answers that are not streamed, against a fake node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.conftest import StartIsocost
from tests.integration.harness.bench_runs import ended, write_trace
from tests.integration.harness.ports import free_port
from tests.integration.harness.wait import wait_until

WHOLE = ("--body", '{"stream": false}')


@pytest.fixture
async def url(start_isocost: StartIsocost) -> str:
    port = free_port()
    node = start_isocost("fake-node", "--listen", f"127.0.0.1:{port}", "--name", "n1")
    await wait_until(lambda: "listens" in node.stdout.read_text(), "the node listens")
    return f"http://127.0.0.1:{port}"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.csv", 20, 2)


async def test_whole_answers_are_complete_and_their_first_token_is_unknown(
    start_isocost: StartIsocost, url: str, trace: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    bench = start_isocost(
        *("bench", "--url", url, "--model", "llama-3.1-8b", "--trace", str(trace), *WHOLE),
        *("--slo", "e2e_ms=60000", "--html", str(page), "--json"),
    )
    assert await ended(bench) == 0, bench.messages()
    report = json.loads(bench.stdout.read_text())
    assert report["requests"]["ok"] == 40
    assert report["tokens"]["output"] == 40 * 16
    assert report["nodes"][0]["name"] == "n1" and report["nodes"][0]["requests"] == 40
    for metric in ("ttft_ms", "tpot_ms"):
        assert report[metric]["count"] == 0 and report[metric]["p50"] is None
    # 16 tokens of an engine that needs 7 ms for each step.
    assert report["e2e_ms"]["count"] == 40 and report["e2e_ms"]["p50"] > 50
    assert report["goodput"]["fraction"] == 1
    assert "No answer had a first token." in page.read_text()


async def test_a_condition_on_the_first_token_has_no_value_and_an_slo_on_it_is_refused(
    start_isocost: StartIsocost, url: str, trace: Path
) -> None:
    common = ("bench", "--url", url, "--model", "llama-3.1-8b", "--trace", str(trace), *WHOLE)
    failed = start_isocost(*common, "--fail-if", "ttft_ms.p99>850")
    assert await ended(failed) == 1
    assert "ttft_ms.p99>850: its value is not known" in failed.stdout.read_text()
    refused = start_isocost(*common, "--slo", "ttft_ms=850,e2e_ms=10000")
    assert await ended(refused) == 2
    assert "--slo ttft_ms: answers that are not streamed have no first token" in refused.messages()


async def test_targets_are_compared_by_what_whole_answers_have(
    start_isocost: StartIsocost, url: str, trace: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    bench = start_isocost(
        *("bench", "--target", f"a={url}", "--target", f"b={url}", "--model", "llama-3.1-8b"),
        *("--trace", str(trace), *WHOLE, "--rounds", "3", "--html", str(page), "--json"),
    )
    assert await ended(bench) == 0, bench.messages()
    ratios = json.loads(bench.stdout.read_text())["ratios"]["b"]
    assert ratios["ttft_ms.p50"]["ratio"] is None
    assert ratios["ttft_ms.p50"]["reason"] == "the baseline has no value"
    assert ratios["e2e_ms.p99"]["ratio"] is not None and ratios["goodput"]["ratio"] == 1
    assert page.read_text().startswith("<!DOCTYPE html>")
