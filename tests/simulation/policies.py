"""equal_cost beside Envoy's policies on 16 simulated nodes of two speeds: `make simulate`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from isocost.bench.load import load
from isocost.demo.fleet import MODEL
from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.models import model_named
from tests.benchmark.capacity import capacity_per_s, mix_of
from tests.simulation.envoy import LeastRequest, RoundRobin
from tests.simulation.equal_cost import EqualCost
from tests.simulation.fleet import Gateway, Request, replay
from tests.simulation.learning import Learner, Node

KINDS = ("H100",) * 8 + ("A100",) * 8
HARDWARE = {kind: Hardware(kind, 1, model_named(MODEL)) for kind in set(KINDS)}
MAX_NUM_SEQS = 128
#: Learned speeds are those of prompts of this length.
LEARNED_TOKENS = 2048
WORKERS = 2


def engine(kind: str) -> Engine:
    return Engine(HARDWARE[kind].speed, HARDWARE[kind].kv_blocks, MAX_NUM_SEQS)


def capacities(source: str) -> dict[str, float]:
    """Requests of the trace a second that a node of each kind sustains."""
    mix = mix_of(source)
    return {kind: capacity_per_s(partial(engine, kind), mix) for kind in HARDWARE}


def learned(capacity_per_s: dict[str, float]) -> list[Node]:
    """What a control plane knows that has learned well."""
    return [
        Node(
            HARDWARE[kind].speed.prefill_s(LEARNED_TOKENS, 0) / LEARNED_TOKENS,
            HARDWARE[kind].kv_pool_tokens,
            capacity_per_s[kind],
        )
        for kind in KINDS
    ]


@dataclass(frozen=True, slots=True)
class Result:
    """Of one run: milliseconds to the first token, and seconds of whole answers."""

    ttft_p50_ms: float
    ttft_p99_ms: float
    e2e_mean_s: float
    e2e_p99_s: float


def result(requests: Sequence[Request]) -> Result:
    ttft_ms = [1000 * ((r.first_token_s or 0.0) - r.arrival_s) for r in requests]
    e2e_s = [(r.finished_s or 0.0) - r.arrival_s for r in requests]
    p50, p99 = np.percentile(ttft_ms, [50, 99])
    return Result(float(p50), float(p99), float(np.mean(e2e_s)), float(np.percentile(e2e_s, 99)))


def learner(mean_output_tokens: float) -> Learner:
    """A control plane that knows nothing but which cards are the same."""
    return Learner(
        [list(HARDWARE).index(kind) for kind in KINDS],
        [HARDWARE[kind].kv_pool_tokens for kind in KINDS],
        mean_output_tokens,
    )


def gateways(
    nodes: Sequence[Node], mean_output_tokens: float, seed: int, *, learning: bool = False
) -> dict[str, Callable[[], Gateway]]:
    """Each policy behind one Envoy of two workers, and behind four; ``learning``: equal_cost has
    to find the nodes' speeds.
    """
    count = len(nodes)

    def equal_cost(vms: int) -> Gateway:
        if not learning:
            return EqualCost(nodes, vms, mean_output_tokens, seed)
        started = learner(mean_output_tokens)
        return EqualCost(started.unlearned, vms, mean_output_tokens, seed, learner=started)

    return {
        "round_robin": lambda: RoundRobin(count, WORKERS, seed),
        "least_request": lambda: LeastRequest(count, 1, seed),
        "equal_cost": lambda: equal_cost(WORKERS),
        "least_request, 4 Envoys": lambda: LeastRequest(count, 4, seed),
        "equal_cost, 4 Envoys": lambda: equal_cost(4 * WORKERS),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.policies", description=__doc__
    )
    parser.add_argument("--trace", action="append", help="a name or a file; default: three of them")
    parser.add_argument("--load", type=float, default=0.78, help="share of the capacity")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds of the trace")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learn", action="store_true", help="speeds are learned, not given")
    options = parser.parse_args(arguments)
    print("| trace | policy | TTFT p50, ms | p99, ms | end to end mean, s | p99, s |")
    print("|---|---|---|---|---|---|")
    for name in options.trace or ("azure-conv", "mooncake", "abc"):
        capacity = capacities(name)
        rate = options.load * sum(capacity[kind] for kind in KINDS)
        trace = load(name, seed=options.seed, rate=rate, duration_s=options.duration)
        mean = sum(item.output_tokens for item in trace) / len(trace)
        started = gateways(learned(capacity), mean, options.seed, learning=options.learn)
        for policy, start in started.items():
            got = result(replay(trace, [engine(kind) for kind in KINDS], start()))
            print(
                f"| {name} | {policy} | {got.ttft_p50_ms:.0f} | {got.ttft_p99_ms:.0f} "
                f"| {got.e2e_mean_s:.2f} | {got.e2e_p99_s:.1f} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
