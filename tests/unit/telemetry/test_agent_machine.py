"""What an agent reports of its machine: the network's rate and the engine's CUDA handles."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from isocost.config import AgentConfig
from isocost.model import NodeSample, SignalState
from isocost.telemetry import handle_watch
from isocost.telemetry.machine import NETWORK_INTERVAL_S
from tests.integration.harness.wait import wait_until
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library
from tests.unit.telemetry.fake_machine import FakeMachine
from tests.unit.telemetry.page_server import page_server
from tests.unit.telemetry.test_agent import ControlPlane, agent
from tests.unit.telemetry.test_cuda_handles import Processes

PID = 4711
INTERVAL_S = 0.05


@pytest.fixture
async def control_plane() -> AsyncIterator[ControlPlane]:
    plane = ControlPlane()
    await plane.start()
    yield plane
    await plane.stop()


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    build_library()
    fake = FakeGpus(tmp_path, **{"gpus": "a", "a.processes": f"{PID}:1000", "a.pcie_ms": 1})
    for name in ("LD_LIBRARY_PATH", "ISOCOST_FAKE_NVML", "PYTHONPATH"):
        monkeypatch.setenv(name, fake.environment[name])
    return Processes(tmp_path / "proc")


@pytest.fixture
async def settings(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[AgentConfig]:
    async with page_server() as page:
        command = ("/bin/sh", "-c", f'echo "$ISOCOST_NODE $ISOCOST_PIDS" >> {tmp_path}/restarts')
        changes = {"dcgm_url": None, "gpus": ("GPU-a",), "restart_command": command}
        yield AgentConfig(
            name="a1",
            control_plane=f"127.0.0.1:{control_plane.port}",
            http=None,
            interval_ms=50,
            procfs=str(tmp_path / "proc"),
            sysfs=str(tmp_path / "sys"),
            nodes=(page.settings.model_copy(update=changes),),
        )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle_watch, "INTERVAL_S", INTERVAL_S)


def taken_s(control_plane: ControlPlane) -> float:
    sample = sample_of(control_plane)
    return 0.0 if sample is None else sample.taken_s


def sample_of(control_plane: ControlPlane) -> NodeSample | None:
    samples = control_plane.registry.view(time.monotonic()).samples
    return samples[0] if len(samples) else None


async def test_a_drop_of_cuda_handles_marks_the_node_and_runs_the_command_once(
    control_plane: ControlPlane, settings: AgentConfig, processes: Processes, tmp_path: Path
) -> None:
    def handles(count: float, dropped: bool) -> bool:
        sample = sample_of(control_plane)
        return (
            sample is not None
            and sample.cuda_handles.state is SignalState.MEASURED
            and sample.cuda_handles.value == count
            and sample.cuda_handles_dropped is dropped
        )

    processes.set(PID, handles=24)
    async with agent(settings):
        await wait_until(lambda: handles(24, False), "the handles are counted")
        # What it has for a moment at its start is not what it must keep.
        settled_s = time.monotonic() + 5 * INTERVAL_S
        await wait_until(lambda: taken_s(control_plane) > settled_s, "it has them for a while")
        processes.set(PID, handles=3)
        await wait_until(lambda: handles(3, True), "the drop marks the node")
        restarts = tmp_path / "restarts"
        await wait_until(restarts.exists, "the command runs")
        processes.set(PID, handles=24)
        await wait_until(lambda: handles(24, False), "it clears")
    assert restarts.read_text() == f"n1 {PID}\n"


async def test_an_agent_reports_the_rate_of_its_nodes_network_devices(
    control_plane: ControlPlane, settings: AgentConfig, tmp_path: Path
) -> None:
    machine = FakeMachine(tmp_path)
    machine.interface("eth0", "card0")
    machine.interface("eth1", "card1")
    machine.write(eth0=(0, 0), eth1=(0, 0))
    node = settings.nodes[0].model_copy(update={"network": ("eth0",)})

    def measured_rate() -> float | None:
        sample = sample_of(control_plane)
        known = sample is not None and sample.net_bytes_per_s.state is SignalState.MEASURED
        return sample.net_bytes_per_s.value if known and sample is not None else None

    async with agent(settings.model_copy(update={"nodes": (node,)})):
        await wait_until(lambda: measured_rate() == 0.0, "a rate is known")
        machine.write(eth0=(0, 0), eth1=(10**12, 0))
        seen_s = time.monotonic() + 2 * NETWORK_INTERVAL_S
        await wait_until(lambda: taken_s(control_plane) > seen_s, "it was read again")
        assert measured_rate() == 0.0
        machine.write(eth0=(3_000_000, 2_000_000), eth1=(10**12, 0))
        # 5 MB in a window of one reading to 5 s.
        await wait_until(
            lambda: 1e6 <= (measured_rate() or 0.0) <= 5e6 / NETWORK_INTERVAL_S, "it moves"
        )
