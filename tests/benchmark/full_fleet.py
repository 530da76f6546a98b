"""32 fake nodes behind the gateway at full rate: `make bench-fleet`.

300 requests/s in coarse streams, then 30/s token by token. What counts is that the machine is not
saturated (`valid`), nothing failed, and the generator was in time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from isocost.demo.processes import Processes
from isocost.fake.machine import node_keys
from tests.benchmark.stage import NODE_PORT, Stage

NODES = 32
MODEL = "llama-3.1-8b"
NODES_PER_RACK = 8
#: Pieces of a streamed answer, and requests a second. The bundled trace has 3,118 requests: the
#: first load takes each twice.
LOADS = {"coarse": ("8", "300", "2"), "token by token": ("token", "30", "1")}
DURATION_S = "20"


def agent_entry(number: int) -> dict[str, object]:
    name, url = f"fake-{number + 1}", f"127.0.0.1:{NODE_PORT + number}"
    return {
        "name": name,
        "address": url,
        "rack": f"rack-{number // NODES_PER_RACK}",
        "host": f"host-{number // 4}",
        "gpu_kind": "H100",
        "models": [{"name": MODEL, "kv_bytes_per_token": 131_072}],
        **node_keys(name, f"http://{url}"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmark.full_fleet", description=__doc__
    )
    parser.add_argument("--out", type=Path, default=Path("build/full-fleet"))
    options = parser.parse_args(arguments)
    for name, (chunks, rate, copies) in LOADS.items():
        folder = options.out / name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        print(f"{NODES} nodes, {rate} requests/s, {name}", flush=True)
        with Processes(folder) as processes:
            stage = Stage(processes, folder, MODEL)
            stage.start_nodes(
                "fake",
                *("--count", str(NODES), "--listen", f"127.0.0.1:{NODE_PORT}"),
                *("--stream-chunks", chunks),
            )
            entries = [agent_entry(number) for number in range(NODES)]
            gateway = stage.start_ours("weighted_random", entries)
            stage.wait_ready(NODES)
            stage.bench(
                *("--url", gateway.url, "--trace", "azure-conv", "--rate", rate),
                *("--rate-scale", copies),
                *("--duration", DURATION_S, "--report", str(folder / "report.json")),
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
