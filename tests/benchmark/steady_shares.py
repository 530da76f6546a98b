"""How far the nodes' shares of two minutes of constant load move, by policy: part of `make bench`.

For each policy the demo's eight nodes of two speeds, behind an Envoy of two workers, get requests
of one mix at a constant rate. What counts is what each node got in each half minute after the
first: the most that any share moved, as a part of the node's own share or of a fair one, as is
more.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isocost.config import Policy
from isocost.demo.fleet import CAPACITY, MODEL, fleet
from isocost.demo.processes import Processes
from tests.benchmark.bench_json import Entry, at_most, merge
from tests.benchmark.stage import NODE_PORT, Stage
from tests.integration.harness.fault_runs import Ask, write_asks

POLICIES: tuple[Policy, ...] = ("weighted_random", "min_entropy", "equal_cost")
NODES = fleet(NODE_PORT)
#: Half of what these nodes can do, in pieces that leave the machine room.
RATE_PER_S, PROMPT_TOKENS, OUTPUT_TOKENS, PIECES = 100.0, 800, 100, "4"
DURATION_S, SETTLED_S, WINDOW_S = 120, 30, 30
#: Document B's bar: no share moves by more than a tenth after 30 s.
MOST_MOVED = 0.1


def asks(seed: int) -> Iterable[Ask]:
    """Independent users, whose lengths are spread around their means."""
    choose = random.Random(seed)
    at_s = choose.expovariate(RATE_PER_S)
    while at_s < DURATION_S:
        prompt, output = (
            round(mean * choose.uniform(0.2, 1.8)) for mean in (PROMPT_TOKENS, OUTPUT_TOKENS)
        )
        yield Ask(at_s, output, own_tokens=prompt)
        at_s += choose.expovariate(RATE_PER_S)


def moved(requests: NDArray[np.float64]) -> float:
    """``requests`` [s, nodes] that began in each second."""
    windows = requests[SETTLED_S:DURATION_S].reshape(-1, WINDOW_S, requests.shape[1]).sum(axis=1)
    shares = windows / windows.sum(axis=1, keepdims=True)
    least = np.maximum(shares.min(axis=0), 1 / requests.shape[1])
    return float(((shares.max(axis=0) - shares.min(axis=0)) / least).max())


def measure(policy: Policy, folder: Path, seed: int) -> Entry:
    folder.mkdir(parents=True, exist_ok=True)
    trace = write_asks(folder / "trace.jsonl", asks(seed))
    with Processes(folder) as processes:
        stage = Stage(processes, folder, MODEL)
        for node in NODES:
            stage.start_nodes(
                node.name,
                *("--listen", f"127.0.0.1:{node.port}", "--gpu-kind", node.gpu_kind),
                *("--stream-chunks", PIECES),
            )
        entries = [node.agent_entry() for node in NODES]
        ours = stage.start_ours(policy, entries, entropy={"capacity": CAPACITY})
        stage.wait_ready(len(NODES))
        stage.bench(
            *("--url", ours.url, "--trace", str(trace), "--seed", str(seed)),
            *("--control-plane", ours.control_plane or "", "--report", str(folder / "bench.json")),
        )
    report = json.loads((folder / "bench.json").read_text())
    requests = np.array([node["series"]["requests"][:DURATION_S] for node in report["nodes"]]).T
    shares = ", ".join(f"{node['name']} {node['share']:.3f}" for node in report["nodes"])
    failed = report["requests"]["failed"]
    note = f"{report['requests']['ok']} requests, {failed} failed; shares of all: {shares}"
    entry = at_most(f"steady.share_moved.{policy}", moved(requests), "part", MOST_MOVED, note=note)
    print(f"{entry.name}: {entry.value:.3f} ({entry.bar}); {note}", flush=True)
    return entry


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmark.steady_shares", description=__doc__
    )
    parser.add_argument("--policy", action="append", choices=POLICIES, help="default: all three")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/steady"))
    options = parser.parse_args(arguments)
    found = [
        measure(policy, options.out / policy, options.seed) for policy in options.policy or POLICIES
    ]
    merge(found)
    return 0 if all(entry.ok for entry in found) else 1


if __name__ == "__main__":
    sys.exit(main())
