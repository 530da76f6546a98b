"""The readers' processes: what is known while a call hangs or a process is gone, and afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from isocost.model import GpuSample, Signal, SignalState
from isocost.telemetry.nvml import process
from isocost.telemetry.nvml.process import Nvml, NvmlProcess
from isocost.telemetry.nvml.rises import Rises
from isocost.telemetry.nvml.rounds import condition_round, load_round
from isocost.telemetry.nvml.sample import GpuCondition, GpuLoad, Round, aged
from tests.integration.harness.wait import wait_until
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library

#: Tells its readers' pids.
AGENT = """
import asyncio
from isocost.telemetry.nvml.process import Nvml

async def main():
    nvml = Nvml()
    running = asyncio.create_task(nvml.run())
    while not (nvml.load.pid and nvml.condition.pid):
        await asyncio.sleep(0.01)
    print(nvml.load.pid, nvml.condition.pid, flush=True)
    await running

asyncio.run(main())
"""

MEASURED, STALE = SignalState.MEASURED, SignalState.STALE


@pytest.fixture(autouse=True, scope="module")
def library() -> None:
    build_library()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hang shows, and a new process starts, in a fraction of the usual time."""
    for name, value in {
        "LOAD_PATIENCE_S": 1.0,
        "CONDITION_PATIENCE_S": 1.0,
        "CONDITION_INTERVAL_S": 0.05,
        "LOAD_INTERVAL_S": 0.05,
        "BACKOFF_MIN_S": 0.05,
        "BACKOFF_MAX_S": 0.2,
    }.items():
        monkeypatch.setattr(process, name, value)


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGpus:
    return FakeGpus(tmp_path, **{"a.utilization": 30, "a.temperature": 50})


@asynccontextmanager
async def running(nvml: Nvml | NvmlProcess[Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(nvml.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def utilisation(nvml: Nvml) -> Signal:
    return nvml.gpus()[0].load.gpu_utilisation


def temperature(nvml: Nvml) -> Signal:
    condition = nvml.gpus()[0].condition
    assert condition is not None
    return condition.temperature_celsius


async def complete(nvml: Nvml) -> None:
    await wait_until(lambda: any(gpu.condition for gpu in nvml.gpus()), "both loops were read")


def has(read: Callable[[Nvml], Signal], nvml: Nvml, state: SignalState, value: float) -> Any:
    def check() -> bool:
        return read(nvml).state is state and read(nvml).value == value

    return wait_until(check, f"{value} {state.name}")


async def test_readers_in_a_call_that_hangs_do_not_outlive_their_agent(gpus: FakeGpus) -> None:
    gpus.set({"a.all": "hang"})
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", AGENT), env=gpus.environment, stdout=asyncio.subprocess.PIPE
    )
    assert agent.stdout is not None
    readers = [psutil.Process(int(pid)) for pid in (await agent.stdout.readline()).split()]
    assert len(readers) == 2
    await wait_until(
        lambda: all("libnvidia-ml" in str(reader.memory_maps()) for reader in readers),
        "both are in NVML, which hangs",
    )
    agent.kill()
    await agent.wait()
    await wait_until(
        lambda: (
            not any(
                reader.is_running() and reader.status() != psutil.STATUS_ZOMBIE
                for reader in readers
            )
        ),
        "no reader is left",
    )


async def test_values_follow_the_gpus(gpus: FakeGpus) -> None:
    nvml = Nvml(gpus.environment)
    async with running(nvml):
        await complete(nvml)
        gpus.set({"a.utilization": 80, "a.temperature": 77})
        await has(utilisation, nvml, MEASURED, 0.8)
        await has(temperature, nvml, MEASURED, 77)
        assert nvml.gpus()[0].identity.uuid == "GPU-a" and not nvml.gpus()[0].lost


async def test_an_agents_sample_has_the_ages_of_both_loops(gpus: FakeGpus) -> None:
    gpus.set({"a.pcie_tx": 7, "a.nvlinks": 2})
    nvml = Nvml(gpus.environment)
    assert nvml.sample("GPU-a") == GpuSample("GPU-a")
    async with running(nvml):
        await asyncio.wait_for(nvml.heard(), 15)
        sample = nvml.sample("GPU-a")
        assert sample.gpu_utilisation.value == 0.3 and sample.pcie_bytes_per_s.value == 7000
        assert sample.nvlink_active_fraction.state is MEASURED
        gpus.set({"a.pcie_tx": "hang"})
        await wait_until(
            lambda: nvml.sample("GPU-a").pcie_bytes_per_s.state is STALE, "the slow loop is stale"
        )
        sample = nvml.sample("GPU-a")
        assert sample.nvlink_active_fraction.state is STALE
        assert sample.gpu_utilisation.state is sample.vram_free_bytes.state is MEASURED
        assert sample.gpu_utilisation.age_s < sample.pcie_bytes_per_s.age_s
        assert nvml.sample("GPU-b") == GpuSample("GPU-b")


async def test_a_call_that_hangs_leaves_its_loop_stale_and_the_other_measured_until_it_is_over(
    gpus: FakeGpus,
) -> None:
    nvml = Nvml(gpus.environment)
    async with running(nvml):
        await complete(nvml)
        gpus.set({"a.temperature": "hang", "a.utilization": 40})
        await has(temperature, nvml, STALE, 50)
        await has(utilisation, nvml, MEASURED, 0.4)
        before = temperature(nvml)
        await wait_until(lambda: temperature(nvml).age_s > before.age_s, "the stale value ages")
        # The call hangs in the process that is started next as well: it is ended like the first.
        await wait_until(lambda: nvml.condition.starts >= 3, "ended and started again")
        assert temperature(nvml).state is STALE and utilisation(nvml).state is MEASURED
        assert nvml.load.starts == 1
        gpus.set({"a.temperature": 60})
        await has(temperature, nvml, MEASURED, 60)


async def test_an_initialisation_that_hangs_is_ended_too(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "SCAN_PATIENCE_S", 1.0)
    gpus.set({"init": "hang"})
    nvml = Nvml(gpus.environment)
    async with running(nvml):
        await wait_until(lambda: nvml.load.starts >= 2, "ended and started again")
        assert nvml.gpus() == ()
        assert "the load reader hangs: no word for 1 s while NVML is initialised" in caplog.text
        gpus.unset("init")
        await complete(nvml)


async def test_values_are_stale_while_an_initialisation_hangs(gpus: FakeGpus) -> None:
    nvml = Nvml(gpus.environment)
    async with running(nvml):
        await complete(nvml)
        gpus.set({"driver": 2, "init": "hang"})
        await has(utilisation, nvml, STALE, 0.3)
        await has(temperature, nvml, STALE, 50)
        await wait_until(lambda: utilisation(nvml).age_s > 2, "NVML is initialised")
        assert utilisation(nvml).state is temperature(nvml).state is STALE
        assert nvml.load.starts == nvml.condition.starts == 1


async def test_a_reader_that_is_killed_leaves_stale_values_and_is_started_again(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = Nvml(gpus.environment)
    async with running(nvml):
        await complete(nvml)
        gpus.set({"init": "hang"})
        pid = nvml.load.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await has(utilisation, nvml, STALE, 0.3)
        await wait_until(lambda: nvml.load.pid not in (None, pid), "a new process")
        # It says nothing yet, so nothing is fresh.
        assert utilisation(nvml).state is STALE
        monkeypatch.setattr(process, "SCAN_PATIENCE_S", 1.0)
        gpus.unset("init")
        assert nvml.load.pid is not None
        os.kill(nvml.load.pid, signal.SIGKILL)
        await has(utilisation, nvml, MEASURED, 0.3)


async def test_a_reader_that_is_stopped_makes_values_stale_by_their_age(gpus: FakeGpus) -> None:
    now_s = [0.0]

    def clock() -> float:
        return now_s[0]

    reader: NvmlProcess[GpuLoad] = NvmlProcess(
        "load", load_round, 0.05, 1.0, 60.0, environment=gpus.environment, clock=clock
    )
    async with running(reader):
        first = await wait_until(reader.latest, "a round")
        assert reader.pid is not None
        os.kill(reader.pid, signal.SIGSTOP)
        taken_s = first.taken_s
        await wait_until(lambda: _stopped(reader.pid), "it stands still")
        latest = await wait_until(reader.latest, "a round")
        taken_s = latest.taken_s
        now_s[0] = taken_s + 1.0
        assert _utilisation(reader) == Signal(MEASURED, 0.3, pytest.approx(1.0))
        now_s[0] = taken_s + 1.5
        assert _utilisation(reader) == Signal(STALE, 0.3, pytest.approx(1.5))


def _stopped(pid: int | None) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def _utilisation(reader: NvmlProcess[GpuLoad]) -> Signal:
    latest = reader.latest()
    assert latest is not None
    return latest.gpus[0].gpu_utilisation


async def test_pcie_throughput_does_not_slow_the_fast_loop(gpus: FakeGpus) -> None:
    """16 reads of 250 ms are four seconds in which the fast loop goes on."""
    names = [f"g{number}" for number in range(8)]
    gpus.set({"gpus": ",".join(names), **{f"{name}.pcie_ms": 250 for name in names}})
    nvml = Nvml(gpus.environment)
    # Its rounds take four seconds, which is no hang.
    nvml.condition = NvmlProcess(
        "condition",
        lambda raw: condition_round(raw, Rises()),
        *(0.05, 60.0, 60.0),
        environment=gpus.environment,
    )
    rounds: list[float] = []

    def seen() -> int:
        latest = nvml.load.latest()
        if latest is not None and latest.taken_s not in rounds[-1:]:
            rounds.append(latest.taken_s)
        return len(rounds) if nvml.condition.latest() is not None else 0

    async with running(nvml):
        await wait_until(nvml.load.latest, "the fast loop was read")
        count = await wait_until(seen, "the slow loop was read")
        assert count >= 20
        assert nvml.load.starts == 1
        assert all(gpu.load.gpu_utilisation.state is MEASURED for gpu in nvml.gpus())


async def test_xids_are_told_again_and_again_with_how_often_they_came(gpus: FakeGpus) -> None:
    gpus.set({"a.mig": "1", "a.1.uuid": "MIG-one"})
    nvml = Nvml(gpus.environment)
    async with running(nvml):
        await complete(nvml)
        gpus.set({"a.xids": "62,45,62"})
        await wait_until(lambda: len(nvml.xids("GPU-a")) == 2, "both were heard")
        told = nvml.xids("GPU-a")
        assert [(xid.number, xid.count) for xid in told] == [(45, 1), (62, 2)]
        assert nvml.xids("GPU-a") == nvml.xids("MIG-one") == told
        assert nvml.xids("GPU-b") == ()


async def test_without_the_library_it_runs_without_gpus_and_says_so_once(
    gpus: FakeGpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nvml = Nvml({**gpus.environment, "LD_LIBRARY_PATH": str(tmp_path)})
    async with running(nvml):
        await asyncio.wait_for(nvml.heard(), 15)
        first = nvml.condition.latest()
        assert first is not None and first.gpus == ()
        await wait_until(
            lambda: (nvml.condition.latest() or first).taken_s > first.taken_s, "another"
        )
        assert nvml.load.starts == nvml.condition.starts == 1
    assert len(caplog.messages) == 1 and "NVML Shared Library Not Found" in caplog.text


async def test_a_reading_that_contradicts_itself_is_told_once(
    gpus: FakeGpus, caplog: pytest.LogCaptureFixture
) -> None:
    gpus.set({"a.memory_total": 10, "a.memory_used": 11})
    nvml = Nvml(gpus.environment)
    async with running(nvml):
        first = await wait_until(nvml.load.latest, "a round")
        await wait_until(lambda: (nvml.load.latest() or first).taken_s > first.taken_s, "another")
        assert not nvml.sample("GPU-a").vram_free_bytes.known
    assert caplog.messages == ["GPU-a: NVML's figures of its memory contradict each other"]


async def test_cancelled_it_leaves_no_process(gpus: FakeGpus) -> None:
    nvml = Nvml(gpus.environment)
    async with running(nvml):
        await complete(nvml)
        gpus.set({"a.temperature": "hang"})
        pids = [nvml.load.pid, nvml.condition.pid]
        assert None not in pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_ageing_reaches_every_signal() -> None:
    fresh = Signal(MEASURED, 5.0, 0.5)
    gpu = GpuCondition(identity=None, power_watts=fresh)  # type: ignore[arg-type]
    later = aged(Round(0.0, (gpu,), xids_heard=fresh), 1.0, fresh=True)
    assert later.gpus[0].power_watts == later.xids_heard == Signal(MEASURED, 5.0, 1.5)
    later = aged(later, 1.0, fresh=False)
    assert later.gpus[0].power_watts == later.xids_heard == Signal(STALE, 5.0, 2.5)
    assert aged(later, 1.0, fresh=True).xids_heard == Signal(STALE, 5.0, 3.5)
    assert not later.gpus[0].temperature_celsius.known
