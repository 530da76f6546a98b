"""What equal_cost is for, measured: `make bench-quality`.

16 fake nodes of two speeds behind real Envoys: equal_cost, least_request and round_robin get the
same requests in turn, through one Envoy of two workers each, then equal_cost and least_request
through four; and equal_cost with one node three times as slow as without. The figures go to
build/bench.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.benchmark.bench_json import BENCH_JSON, Entry, at_most, merge
from tests.benchmark.quality_fleet import CONV, NODES, TRACES, Bench, Trace, started

#: By the number of Envoys: the figure, the policy that ours is compared with, and the most that its
#: P99 of the first token may be of that one's.
BARS = {
    1: (("least_request", "least_request", 0.65), ("round_robin", "round_robin", 0.3)),
    4: (("least_request_4envoys", "least_request", 0.8),),
}
#: The node that is slowed, by how much and when; what counts begins 5 s later.
SLOW_NODE, SLOW_FACTOR, SLOW_FROM_S, SLOW_COUNTS_FROM_S, SLOW_UNTIL_S = NODES[0], 3, 15, 20, 60
MOST_OF_UNDISTURBED = 1.15

#: One target's part of a report of the bench.
Report = Mapping[str, Any]


def compared(bench: Bench, trace: Trace, runs: int) -> list[Mapping[str, Report]]:
    """Each run's reports by target; every run has prompts and an order of its own."""
    rate_per_s = trace.rate_per_s(bench.load)
    reports = []
    for seed in range(1, runs + 1):
        name = f"{trace.name}-{seed}"
        print(f"{name}: {rate_per_s:.1f} requests/s", flush=True)
        data = bench.run(
            name,
            list(bench.gateways),
            *(*trace.flags(rate_per_s), "--seed", str(seed), "--rounds", str(trace.rounds)),
        )
        reports.append(data["targets"])
        for target, report in data["targets"].items():
            print_row(name, target, report)
    return reports


def slowed(bench: Bench, policy: str, runs: int) -> Entry:
    """One node three times as slow: the phase after 5 s against the same phase undisturbed."""
    rate_per_s = CONV.rate_per_s(bench.load)
    pairs: list[tuple[Report, Report]] = []
    for seed in range(1, runs + 1):
        phases: dict[int, Report] = {}
        for factor in (1, SLOW_FACTOR):
            name = f"slowed-{factor}x-{seed}"
            scenario = bench.folder / f"{name}.yaml"
            scenario.write_text(yaml.safe_dump(slow_scenario(factor)), encoding="utf-8")
            # The caches are left warm by each run: other prompts for the next one.
            flags = ("--seed", str(100 * factor + seed), "--scenario", str(scenario))
            data = bench.run(name, [policy], *CONV.flags(rate_per_s, SLOW_UNTIL_S), *flags)
            phases[factor] = {**data["phases"][-1], "machine_busy": data["machine_busy"]}
            print_row(name, policy, phases[factor])
        pairs.append((phases[SLOW_FACTOR], phases[1]))
    return ratio_entry(f"quality.slowed_node.{CONV.name}", pairs, MOST_OF_UNDISTURBED)


def slow_scenario(factor: float) -> dict[str, Any]:
    """The second order changes nothing: there the phase begins that counts."""
    fault = {"node": SLOW_NODE.name, "fault": "slow", "factor": factor}
    return {
        "nodes": {SLOW_NODE.name: f"http://127.0.0.1:{SLOW_NODE.port}"},
        "faults": [
            {**fault, "start_s": float(start_s)} for start_s in (SLOW_FROM_S, SLOW_COUNTS_FROM_S)
        ],
    }


def ratio_entry(name: str, pairs: Sequence[tuple[Report, Report]], limit: float) -> Entry:
    """P99 of the first token of ours over another one's: the median of the runs' ratios.

    The note has both sides of each run.
    """
    runs = tuple(
        round(ours["ttft_ms"]["p99"] / other["ttft_ms"]["p99"], 3) for ours, other in pairs
    )
    sides = ", ".join(
        f"{ours['ttft_ms']['p99']:.0f} / {other['ttft_ms']['p99']:.0f} ms (mean answers "
        f"{ours['e2e_ms']['mean'] / 1000:.2f} / {other['e2e_ms']['mean'] / 1000:.2f} s)"
        for ours, other in pairs
    )
    failed = sum(ours["requests"]["failed"] for ours, _ in pairs)
    busy = max(report["machine_busy"] or 0.0 for pair in pairs for report in pair)
    note = f"{sides}; failed {failed}, machine {busy:.0%} busy"
    return at_most(name, statistics.median(runs), "ratio", limit, runs, note)


def print_row(name: str, target: str, report: Report) -> None:
    ttft_ms, e2e_ms = report["ttft_ms"], report["e2e_ms"]
    print(
        f"| {name} | {target} | {ttft_ms['p50']:.0f} | {ttft_ms['p99']:.0f} "
        f"| {e2e_ms['mean'] / 1000:.2f} | {e2e_ms['p99'] / 1000:.1f} "
        f"| {report['requests']['failed']} | {report['machine_busy'] or 0:.0%} |",
        flush=True,
    )


def measured(bench: Bench, envoys: int, traces: Sequence[Trace], policy: str, runs: int) -> None:
    """Every figure goes to the file as soon as it is there."""
    for trace in traces:
        reports = compared(bench, trace, runs)
        keep(
            ratio_entry(
                f"quality.ttft_p99_ratio_{other}.{trace.name}",
                [(report[policy], report[against]) for report in reports],
                limit,
            )
            for other, against, limit in BARS[envoys]
        )


def keep(entries: Iterable[Entry]) -> None:
    entries = list(entries)
    for entry in entries:
        print(f"{entry.name}: {entry.value:.2f} ({entry.bar}) {'ok' if entry.ok else 'MISSED'}")
    merge(entries, BENCH_JSON)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark.quality", description=__doc__)
    parser.add_argument(
        "--trace", action="append", choices=[*(trace.name for trace in TRACES), "azure-code"]
    )
    parser.add_argument("--azure-code", type=Path, help="AzureLLMInferenceTrace_code.csv")
    parser.add_argument("--envoys", type=int, action="append", choices=(1, 4), help="default: both")
    parser.add_argument("--slowed", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--load", type=float, default=0.78, help="share of the fleet's capacity")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--policy", default="equal_cost", help="the filter's")
    parser.add_argument("--out", type=Path, default=Path("build/quality"))
    options = parser.parse_args(arguments)
    traces = list(TRACES)
    if options.azure_code is None and "azure-code" in (options.trace or ()):
        parser.error("--trace azure-code needs --azure-code FILE")
    if options.azure_code is not None:
        traces.append(Trace("azure-code", str(options.azure_code)))
    else:
        print("azure-code is left out: name its file with --azure-code (tests/benchmark/README.md)")
    chosen = [trace for trace in traces if trace.name in (options.trace or trace.name)]
    for envoys in options.envoys or (1, 4):
        folder = options.out / f"{envoys}-envoys"
        with started(folder, options.load, options.policy, envoys) as bench:
            measured(bench, envoys, chosen, options.policy, options.runs)
            if envoys == 1 and options.slowed:
                keep([slowed(bench, options.policy, options.runs)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
