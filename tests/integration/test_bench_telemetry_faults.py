"""Faults of the telemetry, and one of an engine, in a fleet: each node shows its own and no other.

One run through Envoy with the control plane sampled: four nodes have a fault for the same time, a
fifth has none.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import StartIsocost
from tests.integration.harness.bench_runs import ended
from tests.integration.harness.fault_runs import Ask, write_asks, write_scenario
from tests.integration.harness.fleet import MODEL, Fleet

Data = dict[str, Any]

#: A page that does not answer leaves its last values for 5 s.
START_S, END_S, LAST_S = 4, 13, 20
PER_S, TOKENS = 40, 80
SLOW, STALE, FROZEN, SKEWED, WELL = (f"node-{number}" for number in range(1, 6))
FACTOR, SKEW_S = 3, -45.0
FAULTS: dict[str, Data] = {
    SLOW: {"fault": "slow", "factor": FACTOR},
    STALE: {"fault": "stale_metrics"},
    FROZEN: {"fault": "frozen_metrics"},
    SKEWED: {"fault": "clock_skew", "seconds": SKEW_S},
}
#: Steps of the series, one a second, with a second's room to the edges.
BEFORE, DURING, AFTER = range(1, START_S), range(START_S + 1, END_S - 1), range(END_S + 2, LAST_S)
#: Of those during the fault the ones in which a silent page's values are not known any more.
SILENT = range(START_S + 6, END_S - 1)
ENGINE = ("running", "waiting", "kv_usage")


class Run:
    """What the report says of a node."""

    def __init__(self, report: Data) -> None:
        self.report = report
        self._nodes = {node["name"]: node["series"] for node in report["nodes"]}
        self._phases = {phase["name"]: phase["nodes"] for phase in report["phases"]}

    def steps(self, name: str, key: str, steps: range) -> list[Any]:
        """The node's values; steps in which a busy machine gave no sample have none."""
        series = self._nodes[name]
        values = [series[key][step] for step in steps if series["state"][step] is not None]
        assert len(values) > len(steps) / 2, series
        return values

    def engine(self, name: str, steps: range) -> set[tuple[Any, ...]]:
        """The different readings of the engine in these steps."""
        return set(zip(*(self.steps(name, key, steps) for key in ENGINE), strict=True))

    def grown(self, name: str, phase: str) -> float:
        """The node's TPOT over that before the faults."""
        tpot_ms = [
            node["tpot_p50_ms"]
            for wanted in ("before", phase)
            for node in self._phases[wanted]
            if node["name"] == name
        ]
        return float(tpot_ms[1] / tpot_ms[0])


async def test_the_report_of_a_fleet_shows_each_nodes_fault_and_that_it_is_gone_after_its_end(
    fleet: Fleet, start_isocost: StartIsocost, tmp_path: Path
) -> None:
    await fleet.start(5)
    scenario = write_scenario(
        tmp_path / "scenario.yaml",
        {node.name: node.url for node in fleet.nodes},
        [{"node": n, "start_s": START_S, "end_s": END_S, **f} for n, f in FAULTS.items()],
    )
    # In even steps every second would find an engine in the same state, frozen or not.
    rng = random.Random(1)
    times_s = sorted(rng.uniform(0, LAST_S) for _ in range(LAST_S * PER_S))
    trace = write_asks(
        tmp_path / "trace.jsonl", (Ask(time_s, TOKENS, own_tokens=200) for time_s in times_s)
    )
    path = tmp_path / "report.json"
    bench = start_isocost(
        *("bench", "--url", fleet.envoy.url, "--model", MODEL, "--trace", str(trace)),
        *("--scenario", str(scenario), "--control-plane", fleet.http, "--report", str(path)),
    )
    assert await ended(bench) == 0, bench.messages()
    run = Run(json.loads(path.read_text()))
    assert run.report["requests"]["ok"] == LAST_S * PER_S
    told = {
        fault["node"]: (fault["fault"], fault["start_s"], fault["end_s"])
        for fault in run.report["faults"]
    }
    assert told == {name: (fault["fault"], START_S, END_S) for name, fault in FAULTS.items()}
    shown = {SLOW: slow, STALE: stale, FROZEN: frozen, SKEWED: skewed}
    for name, check in shown.items():
        check(run, name)
        for other in {*shown, WELL} - {name}:
            with pytest.raises(AssertionError):
                check(run, other)
    for name in (*shown, WELL):
        gone(run, name)


def slow(run: Run, name: str) -> None:
    during = run.report["phases"][1]["name"]
    assert FACTOR / 1.5 < run.grown(name, during) < FACTOR * 1.5


def stale(run: Run, name: str) -> None:
    for key in ENGINE:
        assert set(run.steps(name, key, SILENT)) == {None}


def frozen(run: Run, name: str) -> None:
    assert len(run.engine(name, DURING)) == 1
    assert sum(run.steps(name, "requests", DURING)) > len(DURING)


def skewed(run: Run, name: str) -> None:
    for offset_ms in run.steps(name, "clock_offset_ms", DURING):
        assert abs(offset_ms - SKEW_S * 1e3) < 2_000


def gone(run: Run, name: str) -> None:
    """Before the faults and after them."""
    assert run.grown(name, "after") < 1.5
    for steps in (BEFORE, AFTER):
        assert len(run.engine(name, steps)) > 1
        assert all(None not in reading for reading in run.engine(name, steps))
        for offset_ms in run.steps(name, "clock_offset_ms", steps):
            assert abs(offset_ms) < 2_000
