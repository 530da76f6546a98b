"""What else would take hours: neither pushes nor restarts of nodes leave anything behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import yaml

from isocost.model import Node
from tests.benchmark.bench_json import at_most, record
from tests.integration.conftest import StartBackend, StartEnvoy
from tests.integration.harness.envoy import Envoy, local_bootstrap
from tests.integration.harness.fast_control_plane import command
from tests.integration.harness.gateway import wait_for_members
from tests.integration.harness.memory import rss_kb
from tests.integration.harness.ports import free_port
from tests.integration.harness.process import Process
from tests.integration.harness.steady_load import SteadyLoad
from tests.integration.harness.wait import wait_until

pytestmark = pytest.mark.side_by_side

NODES = 4
RESTARTS = 10_000
#: `make bench` runs a day's worth.
PUSHES = int(os.environ.get("ISOCOST_PUSHES", "50000"))
#: What a working process fills (V8's heap, buffers, caches) has its size after this part.
WARM_UP = 0.25
FLAT_SHARE = 0.02
#: The bar of the figures in build/bench.json, for a day's pushes.
MOST_GROWTH = 1.05
#: At a quarter of the pace that a machine has which does nothing else.
DEADLINE_S = max(600.0, PUSHES / 50)


StartFast = Callable[..., Process]


@pytest.fixture
def start_fast(tmp_path: Path) -> Iterator[StartFast]:
    """Start the control plane that pushes as fast as Envoy takes it."""
    started: list[Process] = []

    def start(port: int, nodes: Iterable[Node], spare_addresses: Iterable[str] = ()) -> Process:
        settings = {"listen": f"127.0.0.1:{port}", "http": f"127.0.0.1:{free_port()}"}
        config = {
            "settings": settings,
            "nodes": [_plain(node) for node in nodes],
            "spare_addresses": list(spare_addresses),
        }
        path = tmp_path / "fast.yaml"
        path.write_text(yaml.safe_dump(config))
        started.append(Process("fast-control-plane", command(path), tmp_path))
        return started[-1]

    yield start
    for process in started:
        process.stop()


async def test_fifty_thousand_pushes_leave_no_trace_in_memory(
    start_fast: StartFast, start_envoy: StartEnvoy, start_backend: StartBackend
) -> None:
    backends = [await start_backend(f"node-{number}") for number in range(NODES)]
    port = free_port()
    control_plane = start_fast(port, [backend.node for backend in backends])
    before, after = await sizes_over(control_plane, start_envoy(local_bootstrap(port), 2), PUSHES)
    record_growth(before, after)
    require_flat(before, after)


async def test_ten_thousand_restarts_of_nodes_leave_no_trace(
    start_fast: StartFast, start_envoy: StartEnvoy, start_backend: StartBackend
) -> None:
    """Each is another instance on another machine: another id, another address."""
    backends = [await start_backend(f"node-{number}") for number in range(NODES)]
    spare = [await start_backend(f"spare-{number}") for number in range(2)]
    port = free_port()
    control_plane = start_fast(
        port, [backend.node for backend in backends], [backend.address for backend in spare]
    )
    before, after = await sizes_over(control_plane, start_envoy(local_bootstrap(port), 2), RESTARTS)
    require_flat(before, after)
    # All of them served, so that all of them were in the filter's books.
    assert all(backend.received for backend in [*backends, *spare])


async def sizes_over(
    control_plane: Process, envoy: Envoy, pushes: int
) -> tuple[dict[str, int], dict[str, int]]:
    """After the warm-up and after all pushes, under load of which no request failed."""
    await wait_for_members(envoy, NODES, NODES)
    async with SteadyLoad(envoy.url, per_s=50) as load:
        await wait_until(lambda: pushed(control_plane) >= WARM_UP * pushes, "warm-up", DEADLINE_S)
        before = await sizes(envoy, control_plane)
        await wait_until(lambda: pushed(control_plane) >= pushes, f"{pushes} pushes", DEADLINE_S)
        after = await sizes(envoy, control_plane)
    print(f"{pushes} pushes: {before} -> {after}; {load.sent} requests")
    assert load.failures == []
    return before, after


def record_growth(before: dict[str, int], after: dict[str, int]) -> None:
    for name, process in (("envoy", "Envoy kB"), ("control", "control plane kB")):
        growth = round(after[process] / before[process], 4)
        note = f"{before[process]} to {after[process]} kB from {WARM_UP:.0%} of {PUSHES} pushes on"
        record(at_most(f"soak.rss_growth.{name}", growth, "ratio", MOST_GROWTH, note=note))


def require_flat(before: dict[str, int], after: dict[str, int]) -> None:
    """No more memory and no more statistics."""
    assert after["statistics"] == before["statistics"]
    for process in ("Envoy kB", "control plane kB"):
        assert after[process] <= before[process] * (1 + FLAT_SHARE)


def _plain(node: Node) -> dict[str, str]:
    return {key: getattr(node, key) for key in ("name", "instance_id", "address", "rack", "host")}


def pushed(control_plane: Process) -> int:
    control_plane.require_running()
    lines = control_plane.stdout.read_text().split()
    return int(lines[-1]) if lines else 0


async def sizes(envoy: Envoy, control_plane: Process) -> dict[str, int]:
    return {
        "Envoy kB": rss_kb(envoy.pid),
        "control plane kB": rss_kb(control_plane.pid),
        "statistics": len(await envoy.stats("")),
    }
