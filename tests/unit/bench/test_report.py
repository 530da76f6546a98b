"""The report's shape, which other programs read."""

import json
from pathlib import Path

import pytest

from isocost.bench.goodput import Goodput, Slo
from isocost.bench.phases import OrderedFault, Phase, PhaseNode, PhaseRequests
from isocost.bench.report import (
    Filter,
    KindReport,
    Lateness,
    ProcessCpu,
    Push,
    Report,
    Requests,
    Samples,
    TargetInfo,
    Tokens,
    TraceInfo,
)
from isocost.bench.series import NodeSeries, Series
from isocost.bench.shares import NodeReport
from isocost.bench.statistics import Percentiles, Summary
from isocost.errors import StartError

DISTRIBUTION = {
    "count": 8,
    "mean": 1.0,
    "stdev": 0.5,
    "p50": 1.0,
    "p90": 1.5,
    "p95": 1.75,
    "p99": 2.0,
    "max": 3.0,
}
NOTHING = {**dict.fromkeys(DISTRIBUTION), "count": 0}

GOLDEN = {
    "schema": "isocost.report/1",
    "policy": "weighted_random",
    "target": {"name": "gateway", "url": "http://127.0.0.1:10000"},
    "trace": {
        "name": "azure-conv",
        "requests": 10,
        "duration_s": 5.0,
        "time_scale": 2.0,
        "rate_scale": 1.0,
        "rate_per_s": 2.0,
    },
    "requests": {"sent": 10, "ok": 8, "failed": 1, "retried": None, "rejected": 1},
    "failures": {"status_4xx": 1, "reset": 1},
    "failure_examples": {"reset": "Server disconnected"},
    "ttft_ms": DISTRIBUTION,
    "tpot_ms": NOTHING,
    "e2e_ms": DISTRIBUTION,
    "ttft_cdf": [[1.0, 0.5], [3.0, 1.0]],
    "lateness_ms": {"p50": 0.1, "p99": 0.2, "max": 0.3},
    "tokens": {"input": 100, "output": 50, "output_per_s": 5.0, "answers_without_usage": 1},
    "slo": {"ttft_ms": 850, "tpot_ms": None, "e2e_ms": None},
    "goodput": {"requests_per_s": 1.6, "fraction": 0.8},
    "nodes": [
        {
            "name": "h100-1",
            "rack": "rack-a",
            "requests": 8,
            "share": 1.0,
            "weight_share": None,
            "capacity_share": 1.0,
            "ttft_p99_ms": None,
            "series": {
                "requests": [8, 0],
                "entropy": ["inf", None],
                "weight": [0.5, None],
                "state": ["serving", None],
                "in_flight": [3, None],
                "running": [2.0, None],
                "waiting": [1.0, None],
                "kv_usage": [0.5, None],
                "sample_age_s": [0.1, None],
                "clock_offset_ms": [-3.5, None],
            },
        }
    ],
    "imbalance": None,
    "imbalance_basis": "equal",
    "kinds": {
        "A": {
            "requests": 10,
            "ok": 8,
            "ttft_ms": DISTRIBUTION,
            "tpot_ms": NOTHING,
            "e2e_ms": DISTRIBUTION,
        }
    },
    "faults": [
        {
            "node": "h100-1",
            "fault": "slow",
            "start_s": 1.0,
            "end_s": None,
            "parameters": {"factor": 3},
        }
    ],
    "phases": [
        {
            "name": "slow",
            "start_s": 1.0,
            "end_s": 5.0,
            "requests": {"sent": 10, "ok": 8, "failed": 1, "rejected": 1},
            "failures": {"reset": 2},
            "ttft_ms": DISTRIBUTION,
            "tpot_ms": NOTHING,
            "e2e_ms": DISTRIBUTION,
            "nodes": [
                {
                    "name": "h100-1",
                    "requests": 8,
                    "ttft_p50_ms": 1.0,
                    "tpot_p50_ms": None,
                    "e2e_p50_ms": 2.0,
                }
            ],
        }
    ],
    "series": {
        "step_s": 1.0,
        "t_s": [0.0, 1.0],
        "sent": [10, 0],
        "ok": [8, 0],
        "failed": [1, 0],
        "rejected": [1, 0],
        "ttft_p50_ms": [1.0, None],
        "ttft_p99_ms": [2.0, None],
        "tpot_p50_ms": [None, None],
        "e2e_p50_ms": [1.0, None],
    },
    "push": {
        "interval_ms": {"p50": 200.0, "p99": 204.0},
        "age_at_pick_ms": {"p50": None, "p99": None},
    },
    "filter": {"wasm_bytes": 120_000, "envoy_cpu_us_per_request": None},
    "samples": {"asked": 5, "answered": 4},
    "seed": 1,
    "versions": {"isocost": "0.1.0", "envoy": None, "python": "3.11.7"},
    "machine_busy": 0.5,
    "valid": True,
    "processes": [{"pid": 7, "name": "envoy", "cpu_fraction": 0.25}],
    "interrupted": False,
}


def report(machine_busy: float | None = 0.5) -> Report:
    summary = Summary(8, 1.0, 0.5, 1.0, 1.5, 1.75, 2.0, 3.0)
    return Report(
        policy="weighted_random",
        target=TargetInfo("gateway", "http://127.0.0.1:10000"),
        trace=TraceInfo("azure-conv", 10, 5.0, time_scale=2.0),
        requests=Requests(sent=10, ok=8, failed=1, retried=None, rejected=1),
        failures={"status_4xx": 1, "reset": 1},
        failure_examples={"reset": "Server disconnected"},
        ttft_ms=summary,
        tpot_ms=Summary(0),
        e2e_ms=summary,
        ttft_cdf=((1.0, 0.5), (3.0, 1.0)),
        lateness_ms=Lateness(0.1, 0.2, 0.3),
        tokens=Tokens(input=100, output=50, output_per_s=5.0, answers_without_usage=1),
        slo=Slo(ttft_ms=850),
        goodput=Goodput(1.6, 0.8),
        nodes=(
            NodeReport(
                name="h100-1",
                rack="rack-a",
                requests=8,
                share=1.0,
                weight_share=None,
                capacity_share=1.0,
                ttft_p99_ms=None,
                series=NodeSeries(
                    requests=(8, 0),
                    entropy=("inf", None),
                    weight=(0.5, None),
                    state=("serving", None),
                    in_flight=(3, None),
                    running=(2.0, None),
                    waiting=(1.0, None),
                    kv_usage=(0.5, None),
                    sample_age_s=(0.1, None),
                    clock_offset_ms=(-3.5, None),
                ),
            ),
        ),
        imbalance=None,
        imbalance_basis="equal",
        kinds={"A": KindReport(10, 8, summary, Summary(0), summary)},
        faults=(OrderedFault("h100-1", "slow", 1.0, None, {"factor": 3}),),
        phases=(
            Phase(
                name="slow",
                start_s=1.0,
                end_s=5.0,
                requests=PhaseRequests(10, 8, 1, 1),
                failures={"reset": 2},
                ttft_ms=summary,
                tpot_ms=Summary(0),
                e2e_ms=summary,
                nodes=(PhaseNode("h100-1", 8, 1.0, None, 2.0),),
            ),
        ),
        series=Series(
            step_s=1.0,
            t_s=(0.0, 1.0),
            sent=(10, 0),
            ok=(8, 0),
            failed=(1, 0),
            rejected=(1, 0),
            ttft_p50_ms=(1.0, None),
            ttft_p99_ms=(2.0, None),
            tpot_p50_ms=(None, None),
            e2e_p50_ms=(1.0, None),
        ),
        push=Push(Percentiles(200.0, 204.0), Percentiles()),
        filter=Filter(wasm_bytes=120_000, envoy_cpu_us_per_request=None),
        samples=Samples(5, 4),
        seed=1,
        versions={"isocost": "0.1.0", "envoy": None, "python": "3.11.7"},
        machine_busy=machine_busy,
        processes=(ProcessCpu(7, "envoy", 0.25),),
        interrupted=False,
    )


def test_every_field_is_there_and_unknown_is_null(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report().write(path)
    written = json.loads(path.read_text())
    assert written == GOLDEN
    assert list(written) == list(GOLDEN)
    assert report().to_data() == GOLDEN


@pytest.mark.parametrize(("busy", "valid"), [(0.85, True), (0.86, False), (None, None)])
def test_a_run_on_a_saturated_machine_is_marked_invalid(
    busy: float | None, valid: bool | None
) -> None:
    assert json.loads(report(busy).to_json())["valid"] is valid


def test_a_trace_that_comes_all_at_once_has_no_rate() -> None:
    assert TraceInfo("t", 5, 0.0).rate_per_s is None


def test_a_report_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"--report .*missing/report\.json"):
        report().write(tmp_path / "missing" / "report.json")
