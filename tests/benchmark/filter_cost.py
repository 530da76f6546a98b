"""What the filter costs, against its bars: CPU of a request, size, start, a pick, a table.

    PYTHONPATH=.:control_plane python -m tests.benchmark.filter_cost [--policy NAME]

`make bench` runs it, after the criterion benches whose estimates it reads and with the floor built.
The figures go to build/bench.json; the exit code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import aiohttp
import yaml
from rich.console import Console
from rich.table import Table

from isocost.demo.processes import Processes
from isocost.files import WASM
from tests.benchmark import cost_stage
from tests.benchmark.bench_json import Entry, at_most, merge
from tests.integration.harness.announcer import Announcer
from tests.integration.harness.ports import free_port

VARIANTS = ("none", "floor", "ours")
#: Bytes of the prompt in a request.
PROMPTS = {"200B": 200, "16KB": 16_384}
CONNECTIONS = 32
ROUNDS = 5
REQUESTS = 8_000
#: Opens the connections to the nodes: idle ones end after 4 s.
WARM_UP = 2_000
STARTS = 15

RATIO_NONE, RATIO_FLOOR = 1.30, 1.10
WASM_BYTES = 130_048
START_MS = 3.0
PICK_NS, PICK_GROWTH = 1_000.0, 1.5
DECODE_MS = 2.0
CRITERION = Path("build/target/criterion")

_READY_S = 60.0
_ENGLISH = Path("filter/core/tests/texts/english.txt")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--policy", default="equal_cost", help="the filter's (default: equal_cost)")
    policy = parser.parse_args().policy
    entries = [*native(policy), size()]
    with tempfile.TemporaryDirectory() as name:
        entries += starts(Path(name))
        entries += asyncio.run(cpu(Path(name), policy))
    merge(entries)
    show(entries)
    return 0 if all(entry.ok for entry in entries) else 1


# --- CPU of a request ---------------------------------------------------------------------------


async def cpu(folder: Path, policy: str) -> list[Entry]:
    """Rounds of all variants in turn, each over the same number of requests."""
    bodies = {name: _body(folder, name, size) for name, size in PROMPTS.items()}
    spent: dict[tuple[str, str], list[float]] = {}
    with Processes(folder) as processes:
        upstream, control_plane, http = free_port(), free_port(), free_port()
        cost_stage.start_envoy(processes, "nodes", cost_stage.answering(upstream), folder)
        _start_control_plane(processes, folder, control_plane, http, policy)
        gateways = {}
        for variant in VARIANTS:
            listen, admin = cost_stage.free_gateway_ports()
            config = cost_stage.gateway(listen, admin, control_plane, variant)
            gateways[variant] = (
                cost_stage.start_envoy(processes, variant, config, folder),
                listen,
                admin,
            )
        async with Announcer(control_plane, cost_stage.fleet(upstream)):
            for _, _, admin in gateways.values():
                await _has_all_nodes(processes, admin)
            for number in range(ROUNDS):
                for variant in VARIANTS[number % 3 :] + VARIANTS[: number % 3]:
                    pid, listen, _ = gateways[variant]
                    for name, body in bodies.items():
                        used = await _round(processes, pid, listen, body)
                        spent.setdefault((variant, name), []).append(used)
                        done = f"round {number + 1} of {ROUNDS}: {variant} {name}"
                        print(f"{done} {used:.1f} us", flush=True)
            await _require_picks(gateways["ours"][2])
    return [entry for name in PROMPTS for entry in _ratios(name, spent)]


def _ratios(name: str, spent: dict[tuple[str, str], list[float]]) -> Iterator[Entry]:
    """Each round's ratio is of figures taken right after each other."""
    ours = spent["ours", name]
    for other, limit in (("none", RATIO_NONE), ("floor", RATIO_FLOOR)):
        runs = tuple(a / b for a, b in zip(ours, spent[other, name], strict=True))
        microseconds = ", ".join(
            f"{variant} {median(spent[variant, name]):.1f}" for variant in VARIANTS
        )
        note = (
            f"CPU of the whole Envoy per request, 1 worker, {CONNECTIONS} connections, "
            f"{cost_stage.NODES} nodes, 5 tables/s, {REQUESTS} requests a round; us: {microseconds}"
        )
        entry = at_most(f"filter.cpu_ratio_{other}.{name}", median(runs), "", limit, runs, note)
        yield replace(entry, value=round(entry.value, 3))


def _body(folder: Path, name: str, size: int) -> Path:
    text = _ENGLISH.read_text(encoding="utf-8")
    prompt = (text * (size // len(text) + 1))[:size]
    messages = [{"role": "user", "content": prompt}]
    path = folder / f"body-{name}"
    path.write_text(json.dumps({"model": "m", "messages": messages, "max_tokens": 64}))
    return path


def _start_control_plane(
    processes: Processes, folder: Path, listen: int, http: int, policy: str
) -> None:
    config = {
        "listen": f"127.0.0.1:{listen}",
        "http": f"127.0.0.1:{http}",
        "filter": {"policy": policy},
    }
    path = folder / "control-plane.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "-m", "isocost.cli.main", "control-plane", "--config", str(path)]
    processes.start("control-plane", command, nice=5)


async def _round(processes: Processes, pid: int, port: int, body: Path) -> float:
    """CPU microseconds of a request."""
    numbers = [str(number) for number in (CONNECTIONS, WARM_UP, REQUESTS)]
    client = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.benchmark.closed_loop", str(port), str(body), *numbers),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert client.stdin is not None
    assert client.stdout is not None
    await client.stdout.readline()
    before_s = cpu_s(pid)
    client.stdin.write(b"\n")
    answers = await client.stdout.readline()
    used_s = cpu_s(pid) - before_s
    await client.wait()
    processes.check()
    by_status = json.loads(answers or b"{}")
    if by_status != {"200": REQUESTS}:
        raise RuntimeError(f"of {REQUESTS} requests, by status: {by_status}")
    return used_s / REQUESTS * 1e6


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process, as exact as the kernel's scheduler knows it."""
    return (
        sum(
            int((task / "schedstat").read_text().split()[0])
            for task in Path(f"/proc/{pid}/task").iterdir()
        )
        / 1e9
    )


async def _has_all_nodes(processes: Processes, admin: int) -> None:
    wanted = {"cluster.isocost_nodes.membership_healthy": cost_stage.NODES}
    deadline_s = time.monotonic() + _READY_S
    while not wanted.items() <= (await _stats(admin)).items():
        processes.check()
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"an Envoy has not all nodes after {_READY_S:.0f} s")
        await asyncio.sleep(0.2)


async def _require_picks(admin: int) -> None:
    """A filter that left its requests to the fallback policy would be cheap."""
    left = {
        name: value
        for name, value in (await _stats(admin)).items()
        if "isocost.fallback_" in name and value > REQUESTS / 100
    }
    if left:
        raise RuntimeError(f"the filter did not choose: {left}")


async def _stats(admin: int) -> dict[str, int]:
    url = f"http://127.0.0.1:{admin}/stats?format=json&filter=isocost"
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            listed = json.loads(await response.text())["stats"]
    except aiohttp.ClientError:
        return {}
    return {entry["name"]: entry["value"] for entry in listed if "value" in entry}


# --- size and start -----------------------------------------------------------------------------


def size() -> Entry:
    return at_most("filter.wasm_bytes", WASM.stat().st_size, "bytes", WASM_BYTES)


def starts(folder: Path) -> Iterator[Entry]:
    """From the start of the process to the first answer through the filter."""
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(STARTS):
        for with_filter in (number % 2 == 0, number % 2 == 1):
            took[with_filter].append(_start_ms(folder, WASM if with_filter else None))
    with_ms, without_ms = median(took[True]), median(took[False])
    runs = tuple(a - b for a, b in zip(took[True], took[False], strict=True))
    note = (
        f"start to first answer, 1 worker, all of the module compiled: "
        f"{with_ms:.1f} ms with the filter, {without_ms:.1f} without"
    )
    yield at_most("filter.start_ms", round(with_ms - without_ms, 2), "ms", START_MS, runs, note)


def _start_ms(folder: Path, wasm: Path | None) -> float:
    port = free_port()
    with Processes(folder) as processes:
        began_s = time.monotonic()
        cost_stage.start_envoy(processes, "alone", cost_stage.alone(port, wasm), folder)
        while not _answers(port):
            processes.check()
            time.sleep(0.0005)
        return (time.monotonic() - began_s) * 1e3


def _answers(port: int) -> bool:
    with socket.socket() as client:
        try:
            client.connect(("127.0.0.1", port))
        except OSError:
            return False
        client.sendall(b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n")
        return client.recv(12) == b"HTTP/1.1 200"


# --- native benches -----------------------------------------------------------------------------


def native(policy: str) -> Iterator[Entry]:
    """From criterion's estimates."""
    picks = {nodes: _mean_ns(f"pick_{policy}_{nodes}") for nodes in (128, 10_240)}
    yield at_most("filter.pick_ns.128", round(picks[128], 1), "ns", PICK_NS)
    growth = picks[10_240] / picks[128]
    large = at_most("filter.pick_ns.10240", round(picks[10_240], 1), "ns", PICK_NS)
    yield replace(
        large,
        bar=f"{large.bar} and <= {PICK_GROWTH:g}x at 128 nodes",
        ok=large.ok and growth <= PICK_GROWTH,
        note=f"{growth:.2f}x at 128 nodes",
    )
    decode_ms = _mean_ns("decode_and_build_1024") / 1e6
    yield at_most("filter.decode_ms.1024", round(decode_ms, 3), "ms", DECODE_MS)


def _mean_ns(bench: str) -> float:
    path = CRITERION / bench / "new" / "estimates.json"
    if not path.exists():
        sys.exit(f"{path} is missing: run `cargo bench` before, as make bench does")
    return float(json.loads(path.read_text(encoding="utf-8"))["mean"]["point_estimate"])


# --- the table ----------------------------------------------------------------------------------


def show(entries: list[Entry]) -> None:
    table = Table("figure", "value", "bar", "", "note")
    for entry in entries:
        value = f"{entry.value:,g} {entry.unit}".strip()
        table.add_row(entry.name, value, entry.bar, "ok" if entry.ok else "MISSED", entry.note)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


if __name__ == "__main__":
    sys.exit(main())
