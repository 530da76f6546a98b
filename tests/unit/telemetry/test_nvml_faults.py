"""Each fault of a GPU shows within a second, in the state that it has, and clears."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from isocost.model import ABSENT, GpuSample, Signal, SignalState, measured
from isocost.telemetry.node_gpus import NodeGpus
from isocost.telemetry.nvml.process import Gpu, Nvml
from tests.integration.harness.wait import wait_until
from tests.unit.telemetry.fake_gpus import FakeGpus, build_library

MEASURED, STALE, UNSUPPORTED = SignalState.MEASURED, SignalState.STALE, SignalState.UNSUPPORTED
SHOWS_S = 1.0
#: A machine that was busy with something else for a moment tells nothing.
TRIES = 3
#: NVML is opened anew up to two seconds after trouble began, and a GPU that hung is asked again
#: five seconds after it was left out; both take their time.
CLEARS_S = 12.0
GIB = 1024**3


class Fault(NamedTuple):
    """``shows`` sees it in the first GPU, and sees its end."""

    state: dict[str, object]
    shows: Callable[[Gpu, GpuSample], bool]


def slow(gpu: Gpu, name: str) -> Signal:
    signal: Signal = getattr(gpu.condition, name, ABSENT)
    return signal


def value(name: str, number: float) -> Callable[[Gpu, GpuSample], bool]:
    def check(gpu: Gpu, _: GpuSample) -> bool:
        signal = slow(gpu, name)
        return signal.state is MEASURED and signal.value == number

    return check


def stale(gpu: Gpu, sample: GpuSample) -> bool:
    """Both loops are."""
    signals = (
        *(gpu.load.memory_free_bytes, gpu.load.gpu_utilisation),
        *(sample.gpu_utilisation, sample.pcie_bytes_per_s, sample.nvlink_active_fraction),
        *(slow(gpu, "power_watts"), slow(gpu, "nvlink_crc_errors_per_minute")),
    )
    return all(signal.state is STALE for signal in signals)


def slow_stale(gpu: Gpu, sample: GpuSample) -> bool:
    fast = (sample.gpu_utilisation, sample.vram_free_bytes)
    slow_ones = (sample.pcie_bytes_per_s, sample.nvlink_active_fraction, slow(gpu, "power_watts"))
    return states(fast) == {MEASURED} and states(slow_ones) == {STALE}


def fast_stale(gpu: Gpu, sample: GpuSample) -> bool:
    fast = (sample.gpu_utilisation, sample.vram_free_bytes)
    slow_ones = (sample.pcie_bytes_per_s, sample.nvlink_active_fraction, slow(gpu, "power_watts"))
    return states(fast) == {STALE} and states(slow_ones) == {MEASURED}


def states(signals: Iterable[Signal]) -> set[SignalState]:
    return {signal.state for signal in signals}


FAULTS = {
    "GPU lost": Fault({"a.all": "!15"}, lambda gpu, s: gpu.lost and stale(gpu, s)),
    "GPU hangs": Fault({"a.all": "hang"}, stale),
    "call of the slow loop hangs": Fault({"a.temperature": "hang"}, slow_stale),
    "call of the fast loop hangs": Fault({"a.utilization": "hang"}, fast_stale),
    "driver loaded anew": Fault({"driver": 2}, stale),
    "driver gone": Fault({"driver": 3, "init": "!9"}, stale),
    "ECC": Fault({"a.ecc_uncorrected": 2}, value("ecc_uncorrected", 2)),
    "remapped rows": Fault({"a.rows_failed": 1}, value("row_remap_failed", 1)),
    "NVLink down": Fault(
        {"a.nvlink.17.active": 0},
        lambda _, sample: (
            sample.nvlink_active_fraction.state is MEASURED
            and sample.nvlink_active_fraction.value == 17 / 18
        ),
    ),
    "CRC errors": Fault(
        {"a.nvlink.3.crc_flit": 9},
        lambda gpu, sample: (
            value("nvlink_crc_errors_per_minute", 9)(gpu, sample)
            and sample.health is not None
            and sample.health.nvlink_crc_errors_per_minute == measured(9)
        ),
    ),
    "PCIe link narrower": Fault({"a.pcie_width": 4}, value("pcie_width", 4)),
    "throttling": Fault({"a.clocks_event_reasons": 8}, value("clocks_event_reasons", 8)),
    "unsupported": Fault(
        {"a.power": "!3"},
        lambda gpu, _: slow(gpu, "power_watts").state is UNSUPPORTED,
    ),
    "memory contradicts itself": Fault(
        {"a.memory_used": 81 * GIB},
        lambda _, s: s.vram_free_bytes.state is STALE and s.gpu_utilisation.state is MEASURED,
    ),
}


@pytest.fixture(autouse=True, scope="module")
def library() -> None:
    build_library()


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGpus:
    names = [f"g{number}" for number in range(7)]
    links = {f"{name}.nvlinks": 18 for name in ("a", *names)}
    return FakeGpus(tmp_path, **{"gpus": ",".join(["a", *names]), **links})


def sound(nvml: Nvml) -> bool:
    return not any(gpu.lost for gpu in nvml.gpus())


@asynccontextmanager
async def running(environment: dict[str, str]) -> AsyncIterator[Nvml]:
    """Its rises are known, which takes two rounds."""
    nvml = Nvml(environment)
    task = asyncio.create_task(nvml.run())
    try:
        await wait_until(
            lambda: any(slow(gpu, "nvlink_crc_errors_per_minute").known for gpu in nvml.gpus()),
            "two rounds",
        )
        yield nvml
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_shows_within_a_second_and_clears(name: str, gpus: FakeGpus) -> None:
    fault = FAULTS[name]
    async with running(gpus.environment) as nvml:

        def shows() -> bool:
            gpu = next(gpu for gpu in nvml.gpus() if gpu.identity.uuid == "GPU-a")
            return fault.shows(gpu, nvml.sample("GPU-a"))

        took_s = []
        for _ in range(TRIES):
            assert not shows()
            began_s = time.monotonic()
            gpus.set(fault.state)
            await wait_until(shows, name)
            took_s.append(time.monotonic() - began_s)
            gpus.unset(*fault.state)
            if name == "CRC errors":  # They are those of the last minute.
                break
            await wait_until(lambda: not shows(), f"{name} is over", CLEARS_S)
            await wait_until(lambda: sound(nvml), "none is lost", CLEARS_S)
            if took_s[-1] <= SHOWS_S:
                break
        assert min(took_s) <= SHOWS_S


async def test_a_gpu_that_hangs_costs_the_others_a_few_seconds(gpus: FakeGpus) -> None:
    def reads(uuid: str, *states: SignalState) -> bool:
        sample = nvml.sample(uuid)
        told = (sample.gpu_utilisation.state, sample.nvlink_active_fraction.state)
        return set(told) == set(states)

    async with running(gpus.environment) as nvml:
        gpus.set({"a.all": "hang"})
        await wait_until(lambda: reads("GPU-g0", STALE), "it holds the others up")
        await wait_until(lambda: reads("GPU-g0", MEASURED), "they are read without it")
        assert reads("GPU-a", STALE) and nvml.load.starts == nvml.condition.starts == 2
        gpus.set({"g6.xids": "79", "g6.ecc_uncorrected": 1})
        await wait_until(lambda: nvml.xids("GPU-g6"), "another one's Xid is heard")
        gpus.unset("a.all")
        await wait_until(lambda: reads("GPU-a", MEASURED), "it is read again", CLEARS_S)
        health = nvml.sample("GPU-g6").health
        assert health is not None and health.ecc_uncorrected == measured(1)


async def test_a_gpu_that_hangs_and_then_falls_off_the_bus_is_not_kept(gpus: FakeGpus) -> None:
    async with running(gpus.environment) as nvml:
        gpus.set({"a.all": "hang"})
        await wait_until(lambda: nvml.load.starts == nvml.condition.starts == 2, "it is left out")
        gpus.set({"a.all": "!15"})
        await wait_until(lambda: nvml.load.find("GPU-a") is None, "it is gone", CLEARS_S)
        assert nvml.load.answers and nvml.load.find("GPU-g0") is not None


async def test_one_that_hangs_from_the_start_is_not_taken_for_lost(gpus: FakeGpus) -> None:
    gpus.set({"a.all": "hang"})
    nvml = Nvml(gpus.environment)
    node = NodeGpus("n1", ["GPU-a", "GPU-g0"], nvml)
    task = asyncio.create_task(nvml.run())
    try:
        await wait_until(nvml.load.heard.is_set, "the others are read")
        hangs, well = node.sample(0.0)
        assert not hangs.lost and not hangs.vram_free_bytes.known
        assert well.vram_free_bytes.known
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_xids_and_slices_that_go_and_come_show_within_a_second(gpus: FakeGpus) -> None:
    gpus.set({"a.mig": "1,2", "a.1.uuid": "MIG-one"})
    async with running(gpus.environment) as nvml:
        began_s = time.monotonic()
        gpus.set({"a.xids": "79", "a.mig": "2"})
        await wait_until(lambda: nvml.xids("GPU-a"), "the Xid is heard")
        await wait_until(lambda: nvml.sample("MIG-one") == GpuSample("MIG-one"), "the slice went")
        assert time.monotonic() - began_s <= SHOWS_S
        health = nvml.sample("GPU-a").health
        assert health is not None and [xid.number for xid in health.xids] == [79]
        gpus.set({"a.mig": "2,1"})
        await wait_until(lambda: nvml.sample("MIG-one").vram_free_bytes.known, "it came", SHOWS_S)


async def test_a_gpu_that_is_asked_for_and_not_listed_is_looked_for(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isocost.telemetry.nvml.process.RESCAN_S", 0.2)
    async with running(gpus.environment) as nvml:
        assert nvml.sample("GPU-new") == GpuSample("GPU-new")
        gpus.set({"gpus": "a,new"})
        await wait_until(lambda: nvml.sample("GPU-new").vram_free_bytes.known, "it is found")
        await wait_until(lambda: nvml.sample("GPU-new").pcie_bytes_per_s.known, "in both loops")
