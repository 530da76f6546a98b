"""Reports as a run writes them, made without one: the page's samples."""

from __future__ import annotations

import copy
import math
import random
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
FAULTS = (
    ("slow", {"factor": 3}, 120.0, 180.0),
    ("hang", {}, 240.0, 270.0),
    ("refuse", {}, 330.0, 345.0),
    ("clock_skew", {"seconds": 5}, 420.0, 480.0),
)


def distribution(p50: float, spread: float = 4.0) -> Json:
    return {
        "mean": p50 * 1.2,
        "stdev": p50 * 0.8,
        "p50": p50,
        "p90": p50 * spread / 2,
        "p95": p50 * spread / 1.5,
        "p99": p50 * spread,
        "max": p50 * spread * 1.7,
    }


def report(
    *,
    nodes: int = 8,
    duration_s: int = 600,
    control_plane: bool = True,
    faults: bool = True,
    slower: float = 1.0,
    seed: int = 1,
) -> Json:
    """A run of ``duration_s`` with steps of 1 s and, where asked for, four faults."""
    source = random.Random(seed)
    ordered = [
        {
            "node": f"h100-{index % nodes + 1}",
            "fault": fault,
            "start_s": start_s,
            "end_s": end_s,
            "parameters": parameters,
        }
        for index, (fault, parameters, start_s, end_s) in enumerate(FAULTS)
        if faults and end_s <= duration_s
    ]
    shares = [source.uniform(0.8, 1.2) for _ in range(nodes)]
    weights = [source.uniform(0.8, 1.2) for _ in range(nodes)]
    series = _series(duration_s, ordered, slower, source)
    sent = sum(series["sent"])
    failed = sum(series["failed"])
    return {
        "schema": "isocost.report/1",
        "policy": "equal_cost",
        "target": {"name": "isocost", "url": "http://127.0.0.1:10000"},
        "trace": {
            "name": "azure_conv",
            "requests": sent,
            "duration_s": float(duration_s),
            "rate_per_s": sent / duration_s,
            "time_scale": 1.0,
            "rate_scale": 2.0,
        },
        "requests": {
            "sent": sent,
            "ok": sent - failed,
            "failed": failed,
            "retried": 12,
            "rejected": 0,
        },
        "failures": {"reset": failed - failed // 3, "timeout": failed // 3} if failed else {},
        "failure_examples": {"reset": "Server disconnected"} if failed else {},
        "ttft_ms": distribution(140 * slower, 9),
        "tpot_ms": distribution(14 * slower, 2),
        "e2e_ms": distribution(3100 * slower, 3),
        "ttft_cdf": [
            [140 * slower * math.exp(0.9 * _normal(fraction / 200)), fraction / 200]
            for fraction in range(1, 200)
        ],
        "slo": {"ttft_ms": 850.0, "tpot_ms": None, "e2e_ms": None},
        "goodput": {"requests_per_s": 0.97 * sent / duration_s, "fraction": 0.97},
        "lateness_ms": {"p50": 0.11, "p99": 1.9, "max": 7.2},
        "tokens": {
            "input": sent * 900,
            "output": sent * 210,
            "output_per_s": 6300.0,
            "answers_without_usage": 0,
        },
        "nodes": [
            {
                "name": f"h100-{index + 1}",
                "rack": f"rack-{'ab'[index % 2]}",
                "requests": round(sent * share / sum(shares)),
                "share": share / sum(shares),
                "weight_share": weights[index] / sum(weights) if control_plane else None,
                "capacity_share": None,
                "ttft_p99_ms": 700.0 * share * slower,
                "series": _node_series(index, duration_s, ordered, control_plane, source),
            }
            for index, share in enumerate(shares)
        ],
        "imbalance": 1.31,
        "imbalance_basis": "weight" if control_plane else "equal",
        "series": series,
        "faults": ordered,
        "phases": _phases(duration_s, ordered, nodes, slower),
        "kinds": {
            kind: {
                "requests": sent // 3,
                "ok": sent // 3,
                "ttft_ms": distribution(p50 * slower),
                "tpot_ms": distribution(14 * slower),
                "e2e_ms": distribution(900 * slower),
            }
            for kind, p50 in (("A", 90), ("B", 310), ("C", 1200))
        },
        "push": {
            "interval_ms": {"p50": 200.0, "p99": 204.1},
            "age_at_pick_ms": {"p50": 101.0, "p99": 203.0},
        },
        "filter": {"wasm_bytes": 126_512, "envoy_cpu_us_per_request": 212.4},
        "samples": {"asked": duration_s, "answered": duration_s} if control_plane else None,
        "seed": seed,
        "versions": {"isocost": "0.1.0", "envoy": "1.40.0", "python": "3.11.7"},
        "machine_busy": 0.41,
        "valid": True,
        "processes": [
            {"pid": 4711, "name": "envoy", "cpu_fraction": 0.52},
            {"pid": 4712, "name": "isocost bench", "cpu_fraction": 0.31},
            {"pid": 4713, "name": "isocost fake-node", "cpu_fraction": 0.24},
        ],
        "interrupted": False,
    }


def comparison(
    *, nodes: int = 8, duration_s: int = 600, names: tuple[str, ...] = ("isocost", "round-robin")
) -> Json:
    """Targets of which each is slower than the one before."""
    reports = {
        name: report(nodes=nodes, duration_s=duration_s, slower=1 + 0.4 * index, seed=index + 1)
        for index, name in enumerate(names)
    }
    for name, one in reports.items():
        one["target"] = {"name": name, "url": f"http://127.0.0.1:1000{len(name) % 10}"}
    first = next(iter(reports.values()))
    return {
        "schema": "isocost.comparison/1",
        "baseline": names[0],
        "rounds": 10,
        "targets": reports,
        "ratios": {
            name: {
                "ttft_ms.p50": _ratio(1.4 * index, 0.06),
                "ttft_ms.p99": _ratio(1.9 * index, 0.2),
                "tpot_ms.p50": _ratio(1.01, 0.03),
                "e2e_ms.p99": _ratio(1.2 * index, 0.1),
                "goodput": _ratio(0.93 / index, 0.02),
            }
            for index, name in enumerate(names)
            if index
        },
        **{key: copy.deepcopy(first[key]) for key in ("machine_busy", "valid", "processes")},
        **{key: copy.deepcopy(first[key]) for key in ("trace", "seed", "versions", "interrupted")},
    }


def hostile(value: Any, name: str) -> Any:
    """The same with every name, that is every text but the schema's words, replaced."""
    words = {"isocost.report/1", "isocost.comparison/1", "weight", "capacity", "equal", "inf"}
    if isinstance(value, dict):
        return {key: hostile(item, name) for key, item in value.items()}
    if isinstance(value, list):
        return [hostile(item, name) for item in value]
    return name if isinstance(value, str) and value not in words else value


def _normal(fraction: float) -> float:
    """The normal distribution's quantile, near enough for a picture."""
    return 1.7 * math.log(fraction / (1 - fraction)) / math.pi * 1.05


def _ratio(value: float, half: float) -> Json:
    return {"ratio": value, "low": value - half, "high": value + half}


def _active(ordered: list[Json], time_s: float, node: str | None = None) -> set[str]:
    return {
        fault["fault"]
        for fault in ordered
        if fault["start_s"] <= time_s < fault["end_s"] and node in {None, fault["node"]}
    }


def _series(duration_s: int, ordered: list[Json], slower: float, source: random.Random) -> Json:
    steps: Json = {"step_s": 1.0, "t_s": [float(second) for second in range(duration_s)]}
    names = (
        "sent",
        "ok",
        "failed",
        "rejected",
        "ttft_p50_ms",
        "ttft_p99_ms",
        "tpot_p50_ms",
        "e2e_p50_ms",
    )
    for name in names:
        steps[name] = []
    for second in range(duration_s):
        active = _active(ordered, second)
        sent = round(30 + 6 * math.sin(second / 40) + source.uniform(-5, 5))
        failed = source.randint(1, 5) if active & {"refuse", "hang"} else 0
        p50 = source.gauss(140, 12) * slower * (1.3 if active else 1.0)
        quiet = second % 97 == 5
        steps["sent"].append(0 if quiet else sent)
        steps["ok"].append(0 if quiet else sent - failed)
        steps["failed"].append(0 if quiet else failed)
        steps["rejected"].append(0)
        steps["ttft_p50_ms"].append(None if quiet else p50)
        slow = 8 if active & {"slow", "hang"} else 2.5
        steps["ttft_p99_ms"].append(None if quiet else p50 * source.uniform(0.8, 1.2) * slow)
        steps["tpot_p50_ms"].append(None if quiet else source.gauss(14, 1) * slower)
        steps["e2e_p50_ms"].append(None if quiet else source.gauss(3100, 200) * slower)
    return steps


def _node_series(
    index: int,
    duration_s: int,
    ordered: list[Json],
    control_plane: bool,
    source: random.Random,
) -> Json:
    name = f"h100-{index + 1}"
    steps: Json = {"requests": []}
    names = ("entropy", "weight", "state", "in_flight", "running", "waiting", "kv_usage")
    for key in (*names, "sample_age_s", "clock_offset_ms"):
        steps[key] = []
    level = source.uniform(2, 5)
    for second in range(duration_s):
        active = _active(ordered, second, name)
        steps["requests"].append(source.randint(1, 6))
        level = min(12.0, max(0.5, level + source.gauss(0, 0.3)))
        entropy: float | str | None = level * (4 if "slow" in active else 1)
        if "hang" in active:
            entropy = "inf"
        elif "refuse" in active:
            entropy = None
        known = control_plane and entropy is not None
        steps["entropy"].append(entropy if known else None)
        steps["weight"].append(1 / level if known else None)
        steps["state"].append("active" if known else None)
        for key in ("in_flight", "running", "waiting"):
            steps[key].append(source.randint(0, 9) if known else None)
        steps["kv_usage"].append(source.random() if known else None)
        steps["sample_age_s"].append(source.uniform(0.1, 0.3) if known else None)
        skewed = "clock_skew" in active
        steps["clock_offset_ms"].append((5000.0 if skewed else 0.2) if known else None)
    return steps


def _phases(duration_s: int, ordered: list[Json], nodes: int, slower: float) -> list[Json]:
    cuts = sorted({0.0, float(duration_s)} | {f[k] for f in ordered for k in ("start_s", "end_s")})
    phases = []
    for number, (start_s, end_s) in enumerate(pairwise(cuts)):
        active = "+".join(sorted(_active(ordered, start_s)))
        quiet = "before" if number == 0 else "after" if end_s == duration_s else "between"
        phases.append(
            {
                "name": active or (quiet if ordered else "all"),
                "start_s": start_s,
                "end_s": end_s,
                "requests": {
                    "sent": 900,
                    "ok": 890 if active else 900,
                    "failed": 10 * bool(active),
                    "rejected": 0,
                },
                "failures": {"reset": 10} if active else {},
                "ttft_ms": distribution(140 * slower * (2 if active else 1)),
                "tpot_ms": distribution(14 * slower),
                "e2e_ms": distribution(3100 * slower),
                "nodes": [
                    {
                        "name": f"h100-{index + 1}",
                        "requests": 100,
                        "ttft_p50_ms": 140.0,
                        "tpot_p50_ms": 14.0,
                        "e2e_p50_ms": None,
                    }
                    for index in range(nodes)
                ],
            }
        )
    return phases
