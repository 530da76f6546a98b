"""Our policies and Envoy's own beside each other on one fake fleet: `make bench-policies`.

Each target is an Envoy of its own in front of the same eight nodes; `isocost bench` sends every
slice of the trace through one after the other. Loads are shares of what the fleet can serve of
the trace, which the engine's model tells. With --pure the documents' policies stand alone: what a
worker did since the last table does not count.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from isocost.bench.load import load
from isocost.demo.fleet import CAPACITY, MODEL, fleet
from isocost.demo.processes import Processes
from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.models import model_named
from tests.benchmark.capacity import capacity_per_s, prompt_of
from tests.benchmark.stage import NODE_PORT, Stage

NODES = fleet(NODE_PORT)
#: vLLM's setting on these cards, and the fake node's default.
MAX_NUM_SEQS = 128
#: Rounds, seconds of each target in each, and how often each request comes: a Mooncake request is
#: ten times an Azure one, and Azure's 3,118 are too few for the whole run.
ROUNDS = {"azure-conv": (5, 15, "2"), "mooncake": (4, 30, "1")}
SLO = "ttft_ms=1000,tpot_ms=50"
#: The documents' policies; equal_cost without a projection is nobody's.
PURE = ("weighted_random", "min_entropy")


def fleet_capacity_per_s(trace: str, seed: int) -> float:
    """Requests of this trace per second that all nodes together sustain."""
    mix = [(prompt_of(item), item.output_tokens) for item in load(trace, seed=seed)]
    kinds = [node.gpu_kind for node in NODES]
    return sum(kinds.count(kind) * capacity_per_s(engine_of(kind), mix) for kind in set(kinds))


def engine_of(kind: str) -> Callable[[], Engine]:
    hardware = Hardware(kind, 1, model_named(MODEL))
    return lambda: Engine(hardware.speed, hardware.kv_blocks, MAX_NUM_SEQS)


def filters(pure: bool) -> Mapping[str, Mapping[str, object]]:
    """The control planes' ``filter`` sections by target; the others are compared with the first."""
    if pure:
        off = {"projection": False, "dispersion": False}
        return {policy: {"policy": policy, **off} for policy in PURE}
    return {policy: {"policy": policy} for policy in ("equal_cost", *PURE)}


def start(stage: Stage, seed: int, pure: bool) -> dict[str, str]:
    """Everything; the gateways' URLs by target."""
    for node in NODES:
        stage.start_nodes(
            node.name,
            *("--listen", f"127.0.0.1:{node.port}", "--gpu-kind", node.gpu_kind),
            *("--seed", str(seed)),
        )
    entries = [node.agent_entry(seed) for node in NODES]
    entropy = {"capacity": CAPACITY}
    addresses = [f"127.0.0.1:{node.port}" for node in NODES]
    targets = {
        policy: stage.start_ours(policy, entries, filter=dict(section), entropy=entropy)
        for policy, section in filters(pure).items()
    }
    for policy in ("round_robin", "least_request"):
        targets[policy] = stage.start_plain(policy.upper(), addresses)
    return {name: gateway.url for name, gateway in targets.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark.policies", description=__doc__)
    parser.add_argument("--trace", action="append", choices=ROUNDS, help="default: both")
    parser.add_argument("--load", action="append", type=float, help="default: 0.5 and 0.8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--pure",
        action="store_true",
        help="only the documents' policies and Envoy's, with filter.projection and "
        "filter.dispersion off",
    )
    parser.add_argument("--out", type=Path, default=Path("build/policies"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with Processes(options.out) as processes:
        stage = Stage(processes, options.out, MODEL)
        urls = start(stage, options.seed, options.pure)
        stage.wait_ready(len(NODES))
        for trace in options.trace or ROUNDS:
            capacity = fleet_capacity_per_s(trace, options.seed)
            rounds, round_s, copies = ROUNDS[trace]
            for share in options.load or (0.5, 0.8):
                rate, name = capacity * share, f"{trace}-{share * 100:.0f}"
                print(f"{name}: {rate:.1f} requests/s of {capacity:.1f}", flush=True)
                stage.bench(
                    *("--trace", trace, "--rate", f"{rate:.3f}", "--seed", str(options.seed)),
                    *("--rate-scale", copies),
                    *("--rounds", str(rounds), "--duration", str(rounds * round_s), "--slo", SLO),
                    # The nodes are the same for all targets, and so are their capacities.
                    *("--control-plane", stage.gateways[0].control_plane or ""),
                    *("--report", str(options.out / f"{name}.json")),
                    *("--html", str(options.out / f"{name}.html")),
                    *(flag for item in urls.items() for flag in ("--target", "=".join(item))),
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
