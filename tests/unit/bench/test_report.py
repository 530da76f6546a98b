"""The report's shape, which other programs read."""

import json
from pathlib import Path

import pytest

from isocost.bench.report import (
    Filter,
    NodeReport,
    Percentiles,
    Push,
    Report,
    Requests,
    Tokens,
)
from isocost.bench.statistics import Summary
from isocost.errors import StartError

DISTRIBUTION = {
    "mean": 1.0,
    "stdev": 0.5,
    "p50": 1.0,
    "p90": 1.5,
    "p95": 1.75,
    "p99": 2.0,
    "max": 3.0,
}

GOLDEN = {
    "schema": "isocost.report/1",
    "policy": "weighted_random",
    "requests": {"sent": 10, "ok": 8, "failed": 1, "retried": None, "rejected": 1},
    "ttft_ms": DISTRIBUTION,
    "tpot_ms": dict.fromkeys(DISTRIBUTION),
    "e2e_ms": DISTRIBUTION,
    "tokens": {"input": 100, "output": 50, "output_per_s": 5.0},
    "nodes": [
        {
            "name": "h100-1",
            "rack": "rack-a",
            "requests": 8,
            "share": 1.0,
            "weight_share": None,
            "ttft_p99_ms": None,
        }
    ],
    "imbalance": None,
    "push": {
        "interval_ms": {"p50": 200.0, "p99": 204.0},
        "age_at_pick_ms": {"p50": None, "p99": None},
    },
    "filter": {"wasm_bytes": 120_000, "envoy_cpu_us_per_request": None},
    "seed": 1,
    "versions": {"isocost": "0.1.0", "envoy": None, "python": "3.11.7"},
    "machine_busy": 0.5,
    "valid": True,
}


def report(machine_busy: float | None = 0.5) -> Report:
    summary = Summary(**DISTRIBUTION)
    return Report(
        policy="weighted_random",
        requests=Requests(sent=10, ok=8, failed=1, retried=None, rejected=1),
        ttft_ms=summary,
        tpot_ms=None,
        e2e_ms=summary,
        tokens=Tokens(input=100, output=50, output_per_s=5.0),
        nodes=(NodeReport("h100-1", "rack-a", 8, 1.0, None, None),),
        imbalance=None,
        push=Push(Percentiles(200.0, 204.0), Percentiles()),
        filter=Filter(wasm_bytes=120_000, envoy_cpu_us_per_request=None),
        seed=1,
        versions={"isocost": "0.1.0", "envoy": None, "python": "3.11.7"},
        machine_busy=machine_busy,
    )


def test_every_field_is_there_and_unknown_is_null(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report().write(path)
    written = json.loads(path.read_text())
    assert written == GOLDEN
    assert list(written) == list(GOLDEN)


@pytest.mark.parametrize(("busy", "valid"), [(0.85, True), (0.86, False), (None, None)])
def test_a_run_on_a_saturated_machine_is_marked_invalid(
    busy: float | None, valid: bool | None
) -> None:
    assert json.loads(report(busy).to_json())["valid"] is valid


def test_a_report_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"--report .*missing/report\.json"):
        report().write(tmp_path / "missing" / "report.json")
