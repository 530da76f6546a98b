"""What equal_cost is for, measured: `make bench-quality`.

16 fake nodes of two speeds behind real Envoys: equal_cost, least_request and round_robin get the
same requests in turn, through one Envoy of two workers each, then equal_cost and least_request
through four; and equal_cost with one node three times as slow as without. The figures go to
build/bench.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from isocost.demo.fleet import CAPACITY, MODEL, DemoNode, by_rack
from isocost.demo.processes import Processes
from tests.benchmark.bench_json import BENCH_JSON, Entry, at_most, merge
from tests.benchmark.capacity import capacity_per_s, mix_of
from tests.benchmark.policies import engine_of
from tests.benchmark.stage import NODE_PORT, Gateway, Stage

#: Of each kind; two nodes a host, and a host of each kind in every rack.
KINDS, NODES_OF_A_KIND, NODES_OF_A_HOST = ("H100", "A100"), 8, 2
NODES = tuple(
    DemoNode(
        name=f"{kind.lower()}-{index + 1}",
        rack=f"rack-{index // NODES_OF_A_HOST + 1}",
        host=f"host-{kind.lower()}-{index // NODES_OF_A_HOST + 1}",
        gpu_kind=kind,
        port=NODE_PORT + place * NODES_OF_A_KIND + index,
    )
    for place, kind in enumerate(KINDS)
    for index in range(NODES_OF_A_KIND)
)
#: The slowest round robin has answers that wait for minutes.
REQUEST_TIMEOUT_S = 900
#: Before anything counts, so that the speeds of the nodes are learned.
WARM_UP_S = 20.0

MOST_OF_LEAST_REQUEST, MOST_OF_ROUND_ROBIN, MOST_WITH_FOUR_ENVOYS = 0.65, 0.3, 0.8
#: The node that is slowed, by how much and when; what counts begins 5 s later.
SLOW_NODE, SLOW_FACTOR, SLOW_FROM_S, SLOW_COUNTS_FROM_S, SLOW_UNTIL_S = NODES[0], 3, 15, 20, 60
MOST_OF_UNDISTURBED = 1.15


@dataclass(frozen=True, slots=True)
class Trace:
    """How a trace is sent: copies of each request, parts in a run, and seconds of a part."""

    name: str
    source: str
    copies: int = 1
    rounds: int = 1
    round_s: float = 30.0

    def flags(self, rate_per_s: float, duration_s: float | None = None) -> list[str]:
        duration_s = duration_s or self.rounds * self.round_s
        return [
            *("--trace", self.source, "--rate", f"{rate_per_s:.3f}"),
            *("--rate-scale", str(self.copies), "--duration", f"{duration_s:g}"),
        ]

    def rate_per_s(self, load: float) -> float:
        """Requests a second that are this share of what all nodes together sustain."""
        mix = mix_of(self.source)
        per_kind = (capacity_per_s(engine_of(kind), mix) for kind in KINDS)
        return load * NODES_OF_A_KIND * sum(per_kind)


#: A Mooncake request is ten times an Azure one, so fewer come.
CONV = Trace("azure-conv", "azure-conv", copies=3)
TRACES = (CONV, Trace("mooncake", "mooncake", rounds=2, round_s=45.0), Trace("abc", "abc"))


@dataclass(frozen=True, slots=True)
class Bench:
    """A running fleet with the gateways in front of it, and what was asked for."""

    stage: Stage
    gateways: Mapping[str, Gateway]
    control_plane: str
    folder: Path
    load: float

    def run(self, name: str, targets: Sequence[str], *flags: str) -> dict[str, Any]:
        """Send a load to the targets in turn; the report of the bench."""
        report = self.folder / f"{name}.json"
        urls = (f"{target}={self.gateways[target].url}" for target in targets)
        self.stage.bench(
            *(flag for url in urls for flag in ("--target", url)),
            *("--control-plane", self.control_plane),
            *("--request-timeout", str(REQUEST_TIMEOUT_S)),
            *("--report", str(report), "--html", str(report.with_suffix(".html"))),
            *flags,
        )
        data: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return data


@contextmanager
def started(folder: Path, load: float, policy: str, envoys: int) -> Iterator[Bench]:
    """Fake nodes, ours and Envoy's own policies; with several Envoys each is behind a front that
    spreads over them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with Processes(folder) as processes:
        stage = Stage(processes, folder, MODEL)
        for kind in KINDS:
            first = next(node.port for node in NODES if node.gpu_kind == kind)
            stage.start_nodes(
                kind.lower(),
                *("--count", str(NODES_OF_A_KIND), "--listen", f"127.0.0.1:{first}"),
                *("--gpu-kind", kind),
            )
        agents = {
            rack: [node.agent_entry() for node in members]
            for rack, members in by_rack(NODES).items()
        }
        ours = stage.start_ours(policy, agents, entropy={"capacity": CAPACITY})
        addresses = [f"127.0.0.1:{node.port}" for node in NODES]
        fleets = {
            policy: [ours, *(stage.start_another(ours) for _ in range(envoys - 1))],
            "least_request": [stage.start_plain("LEAST_REQUEST", addresses) for _ in range(envoys)],
        }
        if envoys == 1:
            fleets["round_robin"] = [stage.start_plain("ROUND_ROBIN", addresses)]
        gateways = {name: behind_one(stage, members) for name, members in fleets.items()}
        stage.wait_ready(len(NODES))
        bench = Bench(stage, gateways, ours.control_plane or "", folder, load)
        print(f"{envoys} Envoy(s): learning the nodes' speeds", flush=True)
        bench.run("warm-up", [policy], *CONV.flags(CONV.rate_per_s(load), WARM_UP_S))
        yield bench


def behind_one(stage: Stage, gateways: Sequence[Gateway]) -> Gateway:
    """The only one, or a plain Envoy that spreads over all of them."""
    if len(gateways) == 1:
        return gateways[0]
    return stage.start_plain("ROUND_ROBIN", [item.url.removeprefix("http://") for item in gateways])


def compared(bench: Bench, trace: Trace, runs: int) -> list[dict[str, Any]]:
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
        print_rows(name, data["targets"])
    return reports


def slowed(bench: Bench, policy: str, runs: int) -> Entry:
    """One node three times as slow: the phase after 5 s against the same phase undisturbed."""
    rate_per_s = CONV.rate_per_s(bench.load)
    pairs = []
    for seed in range(1, runs + 1):
        p99_ms = {}
        for factor in (1, SLOW_FACTOR):
            name = f"slowed-{factor}x-{seed}"
            scenario = bench.folder / f"{name}.yaml"
            scenario.write_text(yaml.safe_dump(slow_scenario(factor)), encoding="utf-8")
            # The caches are left warm by each run: other prompts for the next one.
            flags = ("--seed", str(100 * factor + seed), "--scenario", str(scenario))
            data = bench.run(name, [policy], *CONV.flags(rate_per_s, SLOW_UNTIL_S), *flags)
            p99_ms[factor] = data["phases"][-1]["ttft_ms"]["p99"]
        print(f"slowed, run {seed}: {p99_ms[1]:.0f} ms undisturbed, {p99_ms[SLOW_FACTOR]:.0f} ms")
        pairs.append((p99_ms[SLOW_FACTOR], p99_ms[1]))
    return ratio_entry(f"quality.slowed_node.{CONV.name}", pairs, MOST_OF_UNDISTURBED, "")


def slow_scenario(factor: float) -> dict[str, Any]:
    """The second order changes nothing: there the phase begins that counts."""
    fault = {"node": SLOW_NODE.name, "fault": "slow", "factor": factor}
    return {
        "nodes": {SLOW_NODE.name: f"http://127.0.0.1:{SLOW_NODE.port}"},
        "faults": [
            {**fault, "start_s": float(start_s)} for start_s in (SLOW_FROM_S, SLOW_COUNTS_FROM_S)
        ],
    }


def against(
    name: str, reports: Sequence[Mapping[str, Any]], policy: str, other: str, limit: float
) -> Entry:
    """P99 of the first token of ours over that of another policy."""
    pairs = [
        (report[policy]["ttft_ms"]["p99"], report[other]["ttft_ms"]["p99"]) for report in reports
    ]
    failed = sum(report[policy]["requests"]["failed"] for report in reports)
    busy = max(report[policy]["machine_busy"] or 0.0 for report in reports)
    return ratio_entry(name, pairs, limit, f"failed {failed}, machine {busy:.0%} busy")


def ratio_entry(name: str, pairs: Sequence[tuple[float, float]], limit: float, note: str) -> Entry:
    """The median of the runs' ratios; the note has both sides of each."""
    runs = tuple(round(ours / other, 3) for ours, other in pairs)
    sides = ", ".join(f"{ours:.0f} / {other:.0f} ms" for ours, other in pairs)
    note = "; ".join(filter(None, (sides, note)))
    return at_most(name, statistics.median(runs), "ratio", limit, runs, note)


def print_rows(name: str, reports: Mapping[str, Any]) -> None:
    for target, report in reports.items():
        ttft_ms, e2e_ms = report["ttft_ms"], report["e2e_ms"]
        print(
            f"| {name} | {target} | {ttft_ms['p50']:.0f} | {ttft_ms['p99']:.0f} "
            f"| {e2e_ms['mean'] / 1000:.2f} | {e2e_ms['p99'] / 1000:.1f} "
            f"| {report['requests']['failed']} | {report['machine_busy'] or 0:.0%} |",
            flush=True,
        )


def measured(bench: Bench, envoys: int, traces: Sequence[Trace], policy: str, runs: int) -> None:
    """Every figure goes to the file as soon as it is there."""
    name = "quality.ttft_p99_ratio"
    for trace in traces:
        reports = compared(bench, trace, runs)
        if envoys == 1:
            wanted = [
                (f"{name}_least_request.{trace.name}", "least_request", MOST_OF_LEAST_REQUEST),
                (f"{name}_round_robin.{trace.name}", "round_robin", MOST_OF_ROUND_ROBIN),
            ]
        else:
            wanted = [
                (
                    f"{name}_least_request_{envoys}envoys.{trace.name}",
                    "least_request",
                    MOST_WITH_FOUR_ENVOYS,
                )
            ]
        keep(against(entry, reports, policy, other, limit) for entry, other, limit in wanted)


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
