"""How much of the prompts is found in the nodes' caches, beside what the policy would find if it
were told what they hold: `make bench`.

Sixteen fake nodes get the conversation trace through one Envoy of two workers, and say how many
tokens they found. The same engines get the same trace in virtual time from the simulated policy,
which looks into their caches.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import aiohttp

from isocost.bench.load import load
from isocost.demo.fleet import CAPACITY, MODEL, DemoNode
from isocost.demo.processes import Processes
from tests.benchmark.bench_json import Entry, merge
from tests.benchmark.stage import NODE_PORT, Stage
from tests.simulation.equal_cost import Cost, EqualCost, Node
from tests.simulation.fleet import replay
from tests.simulation.policies import HARDWARE, LEARNED_TOKENS, engine

KIND, RACKS, NODES_OF_A_RACK = "H100", 4, 4
NODES = tuple(
    DemoNode(
        name=f"node-{index + 1}",
        rack=f"rack-{index // NODES_OF_A_RACK + 1}",
        host=f"host-{index + 1}",
        gpu_kind=KIND,
        port=NODE_PORT + index,
    )
    for index in range(RACKS * NODES_OF_A_RACK)
)
TRACE = "mooncake"
#: About three quarters of what the nodes sustain.
RATE_PER_S = 10.0
WORKERS = 2
#: The simulated policies draw by chance: the mean of so many runs counts.
SEEDS = range(1, 9)
#: Of what the policy reaches that is told the caches.
LEAST = 0.9
#: The filter's constants; request_s is what it assumes before anything is learned.
COST = Cost(request_s=0.0005, kv_s=0.3, kv_over_s=10.0)
_COUNTER = r"^vllm:prefix_cache_{}_total\{{[^}}]*\}} (\S+)$"


def simulated(duration_s: float, seed: int, told: bool) -> float:
    """The part of the prompts' tokens that is found in virtual time."""
    trace = load(TRACE, seed=seed, rate=RATE_PER_S, duration_s=duration_s)
    output_tokens = mean(item.output_tokens for item in trace)
    engines = [engine(KIND) for _ in NODES]
    hardware = HARDWARE[KIND]
    token_s = hardware.speed.prefill_s(LEARNED_TOKENS, 0) / LEARNED_TOKENS
    nodes = [Node(token_s, hardware.kv_pool_tokens, 1.0)] * len(engines)
    caches = engines if told else ()
    gateway = EqualCost(nodes, WORKERS, output_tokens, seed, COST, caches=caches)
    replay(trace, engines, gateway)
    found = sum(item.prefix_hits_total for item in engines)
    return found / sum(item.prefix_queries_total for item in engines)


async def counted() -> tuple[float, float]:
    """Tokens found and tokens looked up so far, over all nodes."""
    hits = queries = 0.0
    async with aiohttp.ClientSession() as session:
        for node in NODES:
            async with session.get(f"http://127.0.0.1:{node.port}/metrics") as response:
                text = await response.text()
            hits += _counter(text, "hits")
            queries += _counter(text, "queries")
    return hits, queries


def _counter(text: str, name: str) -> float:
    return sum(map(float, re.findall(_COUNTER.format(name), text, re.MULTILINE)))


def measured(folder: Path, duration_s: float, seed: int) -> float:
    """The part that the fake nodes find."""
    folder.mkdir(parents=True, exist_ok=True)
    with Processes(folder) as processes:
        stage = Stage(processes, folder, MODEL)
        stage.start_nodes(
            "node",
            *("--count", str(len(NODES)), "--listen", f"127.0.0.1:{NODE_PORT}"),
            *("--gpu-kind", KIND),
        )
        entries = [node.agent_entry() for node in NODES]
        ours = stage.start_ours("equal_cost", entries, entropy={"capacity": CAPACITY})
        stage.wait_ready(len(NODES))
        before = asyncio.run(counted())
        stage.bench(
            *("--url", ours.url, "--trace", TRACE, "--rate", f"{RATE_PER_S:g}"),
            *("--duration", f"{duration_s:g}", "--seed", str(seed), "--request-timeout", "900"),
            *("--report", str(folder / "bench.json"), "--html", str(folder / "bench.html")),
        )
        after = asyncio.run(counted())
    return (after[0] - before[0]) / (after[1] - before[1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmark.prefix_hits", description=__doc__
    )
    parser.add_argument("--duration", type=float, default=240.0, help="seconds of the trace")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/prefix"))
    options = parser.parse_args(arguments)
    told, remembering = (
        mean(simulated(options.duration, seed, told) for seed in SEEDS) for told in (True, False)
    )
    live = measured(options.out, options.duration, options.seed)
    ratio = live / told
    note = (
        f"found {live:.1%} of the prompts' tokens; simulated, told the caches {told:.1%}, "
        f"remembering {remembering:.1%}"
    )
    entry = Entry("prefix.hit_ratio", ratio, "ratio", f">= {LEAST:g}", ratio >= LEAST, note=note)
    print(f"{entry.name}: {ratio:.3f} ({entry.bar}); {note}")
    merge([entry])
    return 0 if entry.ok else 1


if __name__ == "__main__":
    sys.exit(main())
