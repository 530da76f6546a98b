"""Runs of `isocost bench` with a scenario of faults, against fake nodes in one process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.integration.harness.bench_runs import ended
from tests.integration.harness.fleet import MODEL
from tests.integration.harness.ports import free_ports
from tests.integration.harness.process import Process, isocost_command
from tests.integration.harness.wait import wait_until

#: Tokens under one hash of Mooncake's traces.
_BLOCK_TOKENS = 512
_START_S = 30.0


@dataclass(frozen=True)
class Ask:
    """One request of a trace. Those of one ``prefix`` begin with the same blocks."""

    at_s: float
    output_tokens: int
    prefix: int | None = None
    prefix_blocks: int = 0
    own_tokens: int = 100


def write_asks(path: Path, asks: Iterable[Ask]) -> Path:
    """JSON lines of Mooncake's traces, in order of arrival."""
    lines = []
    for ask in sorted(asks, key=lambda ask: ask.at_s):
        blocks = range(ask.prefix_blocks if ask.prefix is not None else 0)
        line = {
            "timestamp": round(ask.at_s * 1e3),
            "input_length": len(blocks) * _BLOCK_TOKENS + ask.own_tokens,
            "output_length": ask.output_tokens,
            "hash_ids": [1000 * (ask.prefix or 0) + block for block in blocks],
        }
        lines.append(json.dumps(line))
    path.write_text("\n".join(lines) + "\n")
    return path


class FaultyNodes:
    """A process of ``count`` fake nodes; the names are the nodes' own."""

    def __init__(self, count: int, folder: Path) -> None:
        first = free_ports(count)
        self.urls = {
            f"n-{index + 1}": f"http://127.0.0.1:{first + index}" for index in range(count)
        }
        flags = ("--name", "n", "--count", str(count), "--listen", f"127.0.0.1:{first}")
        self._folder = folder
        self._process = Process("fake-nodes", isocost_command("fake-node", *flags), folder)
        self._benches: list[Process] = []

    async def ready(self) -> FaultyNodes:
        await wait_until(self._all_listen, "the nodes listen", _START_S)
        return self

    def _all_listen(self) -> bool:
        self._process.require_running()
        return self._process.stdout.read_text().count("listens on") == len(self.urls)

    async def bench(
        self, node: str, trace: Path, faults: Iterable[Mapping[str, Any]], *flags: str
    ) -> dict[str, Any]:
        """The report of a run against that node; all nodes can be named in the faults."""
        name = f"bench-{len(self._benches)}"
        scenario = write_scenario(self._folder / f"{name}.yaml", self.urls, faults)
        report = self._folder / f"{name}.json"
        command = isocost_command(
            *("bench", "--url", self.urls[node], "--model", MODEL, "--trace", str(trace)),
            *("--scenario", str(scenario), "--report", str(report), *flags),
        )
        bench = Process(name, command, self._folder)
        self._benches.append(bench)
        assert await ended(bench) == 0, bench.messages()
        assert "not taken back" not in bench.messages(), bench.messages()
        return dict(json.loads(report.read_text()))

    async def stop(self) -> None:
        for process in (*self._benches, self._process):
            if process.running:
                await asyncio.to_thread(process.stop)


def write_scenario(
    path: Path, nodes: Mapping[str, str], faults: Iterable[Mapping[str, Any]]
) -> Path:
    path.write_text(yaml.safe_dump({"nodes": dict(nodes), "faults": [dict(f) for f in faults]}))
    return path
