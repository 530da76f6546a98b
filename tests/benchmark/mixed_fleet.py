"""The shares of a mixed fleet under saturation, by policy: A100 nodes with a 7B, H100 nodes with a
72B, one H100 node with both, behind a real Envoy. Each model alone, then both.

    python -m tests.benchmark.mixed_fleet --policy weighted_random
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from tests.integration.harness.envoy import Envoy
from tests.integration.harness.mixed_fleet import LARGE, SMALL, MixedFleet
from tests.integration.harness.process import Process, isocost_command

POLICIES = ("equal_cost", "weighted_random", "min_entropy")


class Started:
    """The processes of a fleet; the last started ends first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[Process] = []

    def isocost(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Process:
        name = f"{arguments[0]}-{len(self._processes)}"
        return self._keep(Process(name, isocost_command(*arguments), self._folder, environment))

    def envoy(self, data: dict[str, Any], concurrency: int = 1) -> Envoy:
        envoy = Envoy(data, self._folder, concurrency)
        self._keep(envoy)
        return envoy

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.stop()

    def _keep(self, process: Process) -> Process:
        self._processes.append(process)
        return process


async def measure(policy: str, folder: Path, learn_s: float, measure_s: float) -> None:
    """Prints a row for each model on each node that has it."""
    folder.mkdir(parents=True, exist_ok=True)
    started = Started(folder)
    connector = aiohttp.TCPConnector(force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            fleet = MixedFleet(started.isocost, started.envoy, session, folder)
            await fleet.start_mixed(policy)
            for models in ((SMALL,), (LARGE,), (SMALL, LARGE)):
                for share in await fleet.shares(models, learn_s, measure_s):
                    print(f"{policy}, {' and '.join(models)} waiting: {share}", flush=True)
    finally:
        started.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmark.mixed_fleet", description=__doc__
    )
    parser.add_argument("--policy", action="append", choices=POLICIES, help="default: all three")
    parser.add_argument("--learn", type=float, default=10.0, help="s before each measurement")
    parser.add_argument("--measure", type=float, default=30.0, help="s of each measurement")
    parser.add_argument("--out", type=Path, default=Path("build/mixed-fleet"))
    options = parser.parse_args(arguments)
    for policy in options.policy or POLICIES:
        asyncio.run(measure(policy, options.out / policy, options.learn, options.measure))
    return 0


if __name__ == "__main__":
    sys.exit(main())
