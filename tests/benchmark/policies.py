"""Our policies and Envoy's own beside each other on one fake fleet: `make bench-policies`.

Each target is an Envoy of its own in front of the same eight nodes; `isocost bench` sends every
slice of the trace through one after the other. Loads are shares of what the fleet can serve of
the trace, which the engine's model tells.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import aiohttp
import yaml

from isocost.bench.load import load
from isocost.bench.trace import TraceRequest
from isocost.config import BootstrapSettings
from isocost.demo.fleet import MODEL, DemoNode, by_rack, fleet
from isocost.demo.processes import Processes
from isocost.envoy.binary import find_envoy
from isocost.envoy.bootstrap import bootstrap
from isocost.fake.capacity import capacity_per_s
from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.models import model_named
from isocost.fake.sequence import Prompt
from tests.benchmark.plain_envoy import plain_bootstrap

ISOCOST = (sys.executable, "-m", "isocost.cli.main")
OURS = ("weighted_random", "min_entropy")
ENVOYS = {"round_robin": "ROUND_ROBIN", "least_request": "LEAST_REQUEST"}
#: The first port of each kind of process; those that are many take the following ones.
NODE_PORT, GATEWAY_PORT, ADMIN_PORT, GRPC_PORT, HTTP_PORT = 24_100, 24_200, 24_300, 24_400, 24_500
#: What a card can take of either trace beside an H100, as the engine's model says.
CAPACITY = {"H100": 1.0, "A100": 0.45}
#: vLLM's setting on these cards, and the fake node's default.
MAX_NUM_SEQS = 128
READY_S = 60.0
POLL_S = 0.2
#: As in the demo: engines and agents are on machines of their own.
LOAD_NICE = 5


def fleet_capacity_per_s(trace: str, seed: int) -> float:
    """Requests of this trace per second that all nodes together sustain."""
    mix = [(prompt_of(item), item.output_tokens) for item in load(trace, seed=seed)]
    kinds = [node.gpu_kind for node in fleet(NODE_PORT)]
    return sum(kinds.count(kind) * capacity_per_s(engine_of(kind), mix) for kind in set(kinds))


def prompt_of(item: TraceRequest) -> Prompt:
    whole_blocks = item.blocks[: item.input_tokens // item.block_tokens]
    return Prompt(item.input_tokens, whole_blocks, item.block_tokens)


def engine_of(kind: str) -> Callable[[], Engine]:
    hardware = Hardware(kind, 1, model_named(MODEL))
    return lambda: Engine(hardware.speed, hardware.kv_blocks, MAX_NUM_SEQS)


def start(processes: Processes, folder: Path, seed: int) -> dict[str, str]:
    """Everything, without waiting; the gateways' URLs by target."""
    nodes = fleet(NODE_PORT)
    for node in nodes:
        processes.start(node.name, fake_node(node, seed), nice=LOAD_NICE)
    urls = {}
    for index, policy in enumerate(OURS):
        listen = f"127.0.0.1:{GRPC_PORT + index}"
        http = f"127.0.0.1:{HTTP_PORT + index}"
        start_control_plane(processes, folder, policy, listen, http)
        for rack, members in by_rack(nodes).items():
            path = folder / f"agent-{policy}-{rack}.yaml"
            agent = {
                "name": f"agent-{rack}",
                "control_plane": listen,
                "nodes": [dict(node.agent_entry()) for node in members],
            }
            path.write_text(yaml.safe_dump(agent), encoding="utf-8")
            command = [*ISOCOST, "agent", "--config", str(path)]
            processes.start(f"agent-{policy}-{rack}", command, nice=LOAD_NICE)
        settings = BootstrapSettings(
            node_id=policy,
            listen=f"127.0.0.1:{GATEWAY_PORT + index}",
            admin=f"127.0.0.1:{ADMIN_PORT + index}",
            control_plane=listen,
        )
        urls[policy] = start_envoy(processes, folder, policy, bootstrap(settings), settings.listen)
    addresses = [f"127.0.0.1:{node.port}" for node in nodes]
    for index, (name, policy) in enumerate(ENVOYS.items(), start=len(OURS)):
        port = GATEWAY_PORT + index
        config = plain_bootstrap(policy, port, ADMIN_PORT + index, addresses)
        urls[name] = start_envoy(processes, folder, name, config, f"127.0.0.1:{port}")
    return urls


def start_control_plane(
    processes: Processes, folder: Path, policy: str, listen: str, http: str
) -> None:
    path = folder / f"control-plane-{policy}.yaml"
    settings = {
        "listen": listen,
        "http": http,
        "filter": {"policy": policy},
        "entropy": {"capacity": CAPACITY},
    }
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    command = [*ISOCOST, "control-plane", "--config", str(path)]
    processes.start(f"control-plane-{policy}", command)


def fake_node(node: DemoNode, seed: int) -> list[str]:
    return [
        *(*ISOCOST, "fake-node", "--name", node.name, "--listen", f"127.0.0.1:{node.port}"),
        *("--gpu-kind", node.gpu_kind, "--model", MODEL, "--seed", str(seed)),
    ]


def start_envoy(processes: Processes, folder: Path, name: str, config: object, listen: str) -> str:
    path = folder / f"envoy-{name}.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    processes.start(
        f"envoy-{name}",
        [
            *(str(find_envoy()), "--config-path", str(path), "--concurrency", "2"),
            *("--disable-hot-restart", "--log-level", "warning"),
        ],
        output=folder / f"access-{name}.log",
    )
    return f"http://{listen}"


async def ready(processes: Processes, urls: dict[str, str]) -> None:
    """Every control plane has all nodes, and every gateway answers."""
    wanted = len(fleet(NODE_PORT))
    deadline_s = time.monotonic() + READY_S
    async with aiohttp.ClientSession() as session:
        for index in range(len(OURS)):
            while await serving(session, f"http://127.0.0.1:{HTTP_PORT + index}") != wanted:
                await pause(processes, deadline_s)
        for url in urls.values():
            while not await answers(session, url):
                await pause(processes, deadline_s)


async def pause(processes: Processes, deadline_s: float) -> None:
    processes.check()
    if time.monotonic() > deadline_s:
        raise TimeoutError(f"not ready after {READY_S:.0f} s")
    await asyncio.sleep(POLL_S)


async def serving(session: aiohttp.ClientSession, url: str) -> int:
    try:
        async with session.get(f"{url}/v1/nodes") as response:
            rows = (await response.json())["nodes"]
    except aiohttp.ClientError:
        return 0
    return sum(row["state"] == "serving" for row in rows)


async def answers(session: aiohttp.ClientSession, url: str) -> bool:
    body = {"model": MODEL, "prompt": "hello", "max_tokens": 1}
    try:
        async with session.post(f"{url}/v1/completions", json=body) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark.policies", description=__doc__)
    parser.add_argument("--trace", action="append", help="default: azure-conv and mooncake")
    parser.add_argument("--load", action="append", type=float, help="default: 0.5 and 0.8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--round-s", type=float, default=20.0, help="of each target in each round")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/policies"))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with Processes(options.out) as processes:
        urls = start(processes, options.out, options.seed)
        asyncio.run(ready(processes, urls))
        for trace in options.trace or ("azure-conv", "mooncake"):
            capacity = fleet_capacity_per_s(trace, options.seed)
            for share in options.load or (0.5, 0.8):
                rate = capacity * share
                name = f"{trace}-{share * 100:.0f}"
                print(f"{name}: {rate:.1f} requests/s of {capacity:.1f}", flush=True)
                subprocess.run(
                    [
                        *(*ISOCOST, "bench", "--trace", trace, "--model", MODEL),
                        *("--rate", f"{rate:.3f}", "--seed", str(options.seed)),
                        *("--duration", str(options.round_s * options.rounds)),
                        *("--rounds", str(options.rounds), "--slo", "ttft_ms=1000,tpot_ms=50"),
                        # The nodes are the same for all targets, and so are their capacities.
                        *("--control-plane", f"http://127.0.0.1:{HTTP_PORT}"),
                        *("--report", str(options.out / f"{name}.json")),
                        *("--html", str(options.out / f"{name}.html")),
                        *(flag for item in urls.items() for flag in ("--target", "=".join(item))),
                    ],
                    check=True,
                )
                processes.check()
    return 0


if __name__ == "__main__":
    sys.exit(main())
