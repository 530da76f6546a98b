"""Runs of `isocost bench` against a server with known delays, each in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from tests.integration.harness.process import Process
from tests.integration.harness.wait import wait_until

_RUN_DEADLINE_S = 120.0


class KnownServer:
    """The server process; ``recorded`` is what it really did, see known_delays."""

    def __init__(self, folder: Path, requests: int, scale: float = 1.0, seed: int = 1) -> None:
        self._port_file = folder / "port"
        command = [sys.executable, "-m", "tests.integration.harness.known_delays"]
        arguments = [str(self._port_file), str(requests), str(seed), str(scale)]
        self._process = Process("known-delays", command + arguments, folder)

    async def ready(self) -> KnownServer:
        await wait_until(self._port_file.exists, "the server listens")
        return self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port_file.read_text()}"

    async def recorded(self) -> list[tuple[float, float]]:
        return [tuple(pair) for pair in await self._call("GET", "/recorded")]

    async def stall(self, seconds: float) -> float:
        """How long after the first request it began."""
        return float(await self._call("POST", f"/stall?s={seconds}"))

    async def _call(self, method: str, path: str) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.url + path) as response,
        ):
            return await response.json()

    def stop(self) -> None:
        self._process.stop()


def write_trace(path: Path, rate_per_s: int, duration_s: int) -> Path:
    """Evenly spaced requests with short prompts, as a CSV of the Azure traces."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for number in range(rate_per_s * duration_s):
        ticks = number * 10_000_000 // rate_per_s
        second, fraction = divmod(ticks, 10_000_000)
        lines.append(f"2024-01-01 00:{second // 60:02}:{second % 60:02}.{fraction:07},100,16")
    path.write_text("\n".join(lines) + "\n")
    return path


async def ended(bench: Process) -> int:
    """The exit code of a run that ends by itself."""
    await wait_until(lambda: not bench.running, "the run ends", _RUN_DEADLINE_S)
    return bench.stop()


async def report_of(
    start: Callable[..., Process], folder: Path, url: str, trace: Path, *flags: str
) -> dict[str, Any]:
    """The report of a run that must end with 0."""
    path = folder / "report.json"
    bench = start(
        *("bench", "--url", url, "--model", "m", "--trace", str(trace), "--format", "azure"),
        *("--report", str(path), *flags),
    )
    assert await ended(bench) == 0, bench.messages()
    report: dict[str, Any] = json.loads(path.read_text())
    return report
