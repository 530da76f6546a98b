"""Real machines, as nvidia-smi and the kernel recorded them, read through NVIDIA's own binding.

The numbers here were copied from the captures by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from isocost.model import UNSUPPORTED, Signal, measured
from isocost.telemetry.topology.read import read_topology
from tests.unit.telemetry.captured_machines import (
    DATA,
    MIB,
    Said,
    machine_state,
    nvlink_state,
    said_by_csv,
    said_by_q,
    said_by_xml,
    slice_uuids,
    xids,
)
from tests.unit.telemetry.fake_gpus import FakeGpus, ReaderProcess, build_library

GPU_IDLE, SW_POWER_CAP = 0x1, 0x4


@pytest.fixture(autouse=True, scope="module")
def library() -> None:
    build_library()


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGpus:
    return FakeGpus(tmp_path)


@pytest.fixture
def reader(gpus: FakeGpus) -> Iterator[ReaderProcess]:
    with ReaderProcess(gpus.environment) as process:
        yield process


def mib(number: float) -> Signal:
    return measured(number * MIB)


def numbers(read: Any, *names: str) -> list[Signal]:
    return [getattr(read, name) for name in names]


#: Of GPU 0: total, used, reserved, free as shown in MiB; utilisation of GPU and memory;
#: temperature, power; clocks event reasons; PCIe tx and rx in KB/s, generation and width with
#: their maxima, replays; remapped rows by corrected and uncorrected errors.
Q = [
    (
        "nvidia-smi-multi-gpu/h100-sxm-8x/q.txt",
        (81559, 1, 454, 81106),
        (0, 0, 30, 100.89, GPU_IDLE),
        (567, 559, 5, 5, 16, 16, 7),
        (0, 0),
    ),
    (
        "nvidia-smi-multi-gpu/h100-nvl-2x/q.txt",
        (95830, 0, 594, 95235),
        (0, 0, 32, 61.62, GPU_IDLE),
        (727, 525, 5, 5, 16, 16, 0),
        (0, 0),
    ),
    (
        "nvidia-smi-multi-gpu/a40-10x/q.txt",
        (46068, 1, 665, 45403),
        (0, 0, 29, 29.70, SW_POWER_CAP),
        (500, 400, 1, 4, 16, 16, 0),
        (2, 0),
    ),
    (
        "nvidia-smi-single-gpu/h100-80gb-hbm3/idle-q.txt",
        (81559, 0, 479, 81081),
        (0, 0, 41, 69.85, GPU_IDLE),
        (352, 329, 5, 5, 16, 16, 9),
        (0, 0),
    ),
    (
        "nvidia-smi-single-gpu/h100-80gb-hbm3/load-q.txt",
        (81559, 19818, 479, 61263),
        (100, 11, 59, 629.45, 0),
        (3092, 6346, 5, 5, 16, 16, 9),
        (0, 0),
    ),
    (
        "nvidia-smi-single-gpu/h100-mig/idle-q.txt",
        (81559, 59, 479, 81022),
        (None, None, 42, 71.27, GPU_IDLE),
        (359, 329, 5, 5, 16, 16, 9),
        (None, None),
    ),
    (
        "nvidia-smi-single-gpu/h100-mig/load-q.txt",
        (81559, 11125, 479, 69956),
        (None, None, 53, 432.21, 0),
        (9139, 19191, 5, 5, 16, 16, 9),
        (None, None),
    ),
    (
        # This driver says 100 % of an L40S on which nothing runs.
        "nvidia-smi-single-gpu/l40s/idle-q.txt",
        (46068, 0, 609, 45460),
        (100, 9, 64, 183.28, 0),
        (585, 244, 4, 4, 16, 16, 0),
        (0, 0),
    ),
    (
        "nvidia-smi-single-gpu/l40s/load-q.txt",
        (46068, 1235, 609, 44225),
        (9, 2, 54, 110.24, 0),
        (259423, 2012109, 4, 4, 16, 16, 0),
        (0, 0),
    ),
]
XML = [
    (
        "nvidia-smi-xml/a100-sxm4-v12.xml",
        (81920, 50, 869, 80999),
        (None, None, 27, 67.03, 0),
        (4000, 0, 4, 4, 16, 16, 0),
        (None, None),
    ),
    (
        "nvidia-smi-xml/tesla-t4.xml",
        (15360, 1032, 388, 13939),
        (0, 0, 40, 26.78, 0),
        (0, 0, 3, 3, 8, 16, 0),
        (None, None),
    ),
]
#: The same, but that query does not ask for PCIe throughput and replays.
CSV = [
    (
        "nvidia-smi-single-gpu/h100-80gb-hbm3/idle-query-gpu.csv",
        (81559, 0, 479, 81081),
        (0, 0, 41, 69.85, GPU_IDLE),
        (None, None, 5, 5, 16, 16, None),
        (0, 0),
    ),
    (
        "nvidia-smi-single-gpu/h100-80gb-hbm3/load-query-gpu.csv",
        (81559, 19818, 479, 61263),
        (100, 11, 59, 631.95, 0),
        (None, None, 5, 5, 16, 16, None),
        (0, 0),
    ),
    (
        "nvidia-smi-single-gpu/h100-mig/idle-query-gpu.csv",
        (81559, 59, 479, 81022),
        (None, None, 42, 71.15, GPU_IDLE),
        (None, None, 5, 5, 16, 16, None),
        (None, None),
    ),
    (
        "nvidia-smi-single-gpu/h100-mig/load-query-gpu.csv",
        (81559, 11125, 479, 69956),
        (None, None, 53, 433.78, 0),
        (None, None, 5, 5, 16, 16, None),
        (None, None),
    ),
    (
        "nvidia-smi-single-gpu/l40s/idle-query-gpu.csv",
        (46068, 0, 609, 45460),
        (100, 9, 63, 144.97, 0),
        (None, None, 4, 4, 16, 16, None),
        (0, 0),
    ),
    (
        "nvidia-smi-single-gpu/l40s/load-query-gpu.csv",
        (46068, 1235, 609, 44225),
        (9, 2, 54, 110.23, 0),
        (None, None, 4, 4, 16, 16, None),
        (0, 0),
    ),
]


def signal(number: float | None, unit: float = 1.0) -> Signal:
    return UNSUPPORTED if number is None else measured(number * unit)


@pytest.mark.parametrize(
    ("said", "file", "memory", "state", "pcie", "rows"),
    [
        *((said_by_q, *row) for row in Q),
        *((said_by_xml, *row) for row in XML),
        *((said_by_csv, *row) for row in CSV),
    ],
)
def test_a_recorded_machine(
    said: Callable[[str], list[Said]],
    file: str,
    memory: tuple[float, ...],
    state: tuple[float | None, ...],
    pcie: tuple[float | None, ...],
    rows: tuple[float | None, ...],
    gpus: FakeGpus,
    reader: ReaderProcess,
) -> None:
    gpus.set(machine_state(said(file)))
    load, condition = reader.load().gpus[0], reader.condition().gpus[0]
    total, used, reserved, free = memory
    assert load.memory_total_bytes == mib(total)
    assert load.memory_used_bytes == mib(used)
    assert load.memory_reserved_bytes == mib(reserved)
    # The four are shown as whole MiB.
    assert load.memory_free_bytes.value == pytest.approx(free * MIB, abs=2 * MIB)
    utilisation, memory_busy, temperature, power, reasons = state
    assert load.gpu_utilisation == signal(utilisation, 1 / 100)
    assert load.memory_busy == signal(memory_busy, 1 / 100)
    assert condition.temperature_celsius == signal(temperature)
    assert condition.power_watts.value == pytest.approx(power)
    assert condition.clocks_event_reasons == signal(reasons)
    tx_kb, rx_kb, *link, replays = pcie
    names = ("pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max")
    assert numbers(condition, *names) == [signal(value) for value in link]
    if said is not said_by_csv:
        assert condition.pcie_tx_bytes_per_s == signal(tx_kb, 1000)
        assert condition.pcie_rx_bytes_per_s == signal(rx_kb, 1000)
        assert condition.pcie_replays == signal(replays)
    corrected, uncorrected = rows
    assert condition.rows_remapped_corrected == signal(corrected)
    assert condition.rows_remapped_uncorrected == signal(uncorrected)
    no = UNSUPPORTED if corrected is None else measured(0)
    assert numbers(condition, "row_remap_pending", "row_remap_failed") == [no, no]
    errors = numbers(condition, "ecc_corrected", "ecc_uncorrected", "ecc_uncorrected_ever")
    assert errors == [measured(0)] * 3


def test_every_gpu_of_a_machine_with_eight(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set(machine_state(said_by_q("nvidia-smi-multi-gpu/h100-sxm-8x/q.txt")))
    read = reader.condition().gpus
    assert [gpu.identity.pci_bus_id for gpu in read] == [
        *("00000000:18:00.0", "00000000:2A:00.0", "00000000:3A:00.0", "00000000:5D:00.0"),
        *("00000000:9A:00.0", "00000000:AB:00.0", "00000000:BA:00.0", "00000000:DB:00.0"),
    ]
    assert read[7].identity.uuid == "GPU-00000000-0000-0000-0000-000000000008"
    assert {gpu.identity.name for gpu in read} == {"NVIDIA H100 80GB HBM3"}
    assert [gpu.pcie_replays.value for gpu in read] == [7, 0, 0, 0, 0, 4, 15, 0]
    assert [gpu.temperature_celsius.value for gpu in read] == [30, 30, 31, 29, 28, 30, 29, 29]
    power = [100.89, 82.81, 85.98, 85.48, 84.94, 85.27, 86.05, 75.09]
    assert [gpu.power_watts.value for gpu in read] == pytest.approx(power)
    assert {gpu.mig_enabled for gpu in read} == {measured(0)}
    assert {gpu.compute_processes for gpu in read} == {measured(0)}


def test_every_gpu_of_a_machine_with_ten(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set(machine_state(said_by_q("nvidia-smi-multi-gpu/a40-10x/q.txt")))
    read = reader.condition().gpus
    rows = [2, 0, 0, 0, 0, 0, 1, 0, 0, 1]
    assert [gpu.rows_remapped_corrected.value for gpu in read] == rows
    rx_kb = [400, 450, 500, 400, 450, 400, 450, 400, 450, 500]
    assert [gpu.pcie_rx_bytes_per_s.value / 1000 for gpu in read] == rx_kb
    capped = [gpu.clocks_event_reasons.value == SW_POWER_CAP for gpu in read]
    assert [index for index, is_capped in enumerate(capped) if is_capped] == [0, 3]
    power = [29.70, 24.44, 15.09, 24.94, 24.63, 30.71, 15.70, 30.30, 15.69, 15.85]
    assert [gpu.power_watts.value for gpu in read] == pytest.approx(power)
    # An A40 has no such mode.
    assert {gpu.mig_enabled for gpu in read} == {UNSUPPORTED}


def processes(gpu: Any) -> list[tuple[int, float]]:
    return [(process.pid, process.memory_bytes.value / MIB) for process in gpu.processes]


@pytest.mark.parametrize(
    ("file", "asked", "expected"),
    [
        (
            "nvidia-smi-single-gpu/h100-80gb-hbm3/load-q.txt",
            "nvidia-smi-single-gpu/h100-80gb-hbm3/load-query-compute-apps.csv",
            [(11327, 2566), (11328, 1542), (11345, 15690)],
        ),
        (
            "nvidia-smi-single-gpu/h100-mig/load-q.txt",
            "nvidia-smi-single-gpu/h100-mig/load-query-compute-apps.csv",
            [(21180, 2296), (21181, 1272), (21198, 7484)],
        ),
        (
            "nvidia-smi-single-gpu/l40s/load-q.txt",
            "nvidia-smi-single-gpu/l40s/load-query-compute-apps.csv",
            [(20037, 538), (20038, 681)],
        ),
        (
            "nvidia-smi-single-gpu/h100-80gb-hbm3/idle-q.txt",
            "nvidia-smi-single-gpu/h100-80gb-hbm3/idle-query-compute-apps.csv",
            [],
        ),
        (
            "nvidia-smi-single-gpu/h100-mig/idle-q.txt",
            "nvidia-smi-single-gpu/h100-mig/idle-query-compute-apps.csv",
            [],
        ),
        (
            "nvidia-smi-single-gpu/l40s/idle-q.txt",
            "nvidia-smi-single-gpu/l40s/idle-query-compute-apps.csv",
            [],
        ),
    ],
)
def test_processes(
    file: str,
    asked: str,
    expected: list[tuple[int, float]],
    gpus: FakeGpus,
    reader: ReaderProcess,
) -> None:
    gpus.set(machine_state(said_by_q(file)))
    gpu = reader.condition().gpus[0]
    assert gpu.compute_processes == measured(len(expected))
    assert processes(gpu) == expected
    rows = [
        (int(row["pid"]), int(row["used_gpu_memory [MiB]"].split()[0]))
        for row in said_by_csv(asked)
    ]
    assert rows == expected


def test_what_only_draws_is_no_compute_process(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set(machine_state(said_by_xml("nvidia-smi-xml/tesla-t4.xml")))
    assert processes(reader.condition().gpus[0]) == [(5762, 1005)]


@pytest.mark.parametrize(
    ("file", "used"),
    [
        ("nvidia-smi-single-gpu/h100-mig/idle-q.txt", [26, 17, 9, 9]),
        ("nvidia-smi-single-gpu/h100-mig/load-q.txt", [11091, 17, 9, 9]),
    ],
)
def test_slices_have_memory_and_processes_of_their_own(
    file: str, used: list[int], gpus: FakeGpus, reader: ReaderProcess
) -> None:
    state = machine_state(said_by_q(file))
    uuids = slice_uuids("nvidia-smi-single-gpu/h100-mig/list.txt")
    for instance, uuid in zip(("2", "3", "9", "10"), uuids, strict=True):
        state[f"g0.{instance}.uuid"] = uuid
    gpus.set(state)
    whole, *slices = reader.load().gpus
    assert whole.gpu_utilisation == UNSUPPORTED
    assert slices[3].identity.uuid == "MIG-00000000-0000-0000-0000-000000000004"
    assert [gpu.memory_used_bytes for gpu in slices] == [mib(number) for number in used]
    totals = [40448, 20096, 9984, 9984]
    assert [gpu.memory_total_bytes for gpu in slices] == [mib(number) for number in totals]
    assert {gpu.gpu_utilisation for gpu in slices} == {UNSUPPORTED}
    whole, *slices = reader.condition().gpus
    assert whole.mig_enabled == measured(1)
    assert processes(slices[0]) == processes(whole)
    assert all(gpu.processes == () for gpu in slices[1:])


def test_slices_of_the_a100(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set(machine_state(said_by_xml("nvidia-smi-xml/a100-sxm4-v12.xml")))
    _, *slices = reader.load().gpus
    assert [gpu.memory_total_bytes for gpu in slices] == [mib(19968)] * 4
    assert [gpu.memory_used_bytes for gpu in slices] == [mib(12)] * 4
    assert reader.condition().gpus[0].mig_enabled == measured(1)


@pytest.mark.parametrize(
    ("file", "links"),
    [
        ("gpu-faults/nvlink-status-a100-8x.txt", [12] * 8),
        ("nvidia-smi-single-gpu/h100-80gb-hbm3/nvlink-s.txt", [18]),
        ("nvidia-smi-single-gpu/h100-mig/nvlink-s.txt", [0]),
        ("nvidia-smi-single-gpu/l40s/nvlink-s.txt", [0]),
    ],
)
def test_nvlinks(file: str, links: list[int], gpus: FakeGpus, reader: ReaderProcess) -> None:
    names = ",".join(f"g{index}" for index in range(len(links)))
    gpus.set({"gpus": names, **nvlink_state(file)})
    read = reader.condition().gpus
    assert [len(gpu.links) for gpu in read] == links
    assert {link.active for gpu in read for link in gpu.links} <= {measured(1)}
    if len(read) == 8:
        assert read[0].identity.uuid == "GPU-00000000-0000-0000-0000-000000000002"
        assert read[0].identity.name == "NVIDIA A100-SXM4-80GB"


def test_xids_of_the_kernels_log(gpus: FakeGpus, reader: ReaderProcess) -> None:
    logged = xids("gpu-faults/dmesg-xid-119.log")
    assert logged == [("00000000:9B:00.0", 119)] * 5
    state = {"gpus": "a,b", "a.pci": "00000000:9A:00.0", "b.pci": "00000000:9B:00.0"}
    gpus.set(state)
    names = {gpu.identity.pci_bus_id: gpu.identity.uuid for gpu in reader.condition().gpus}
    heard = ",".join(str(xid) for bus_id, xid in logged if names[bus_id] == "GPU-b")
    gpus.set({"b.xids": heard})
    read = reader.condition()
    assert read.xids == (("GPU-b", 119),) * 5
    assert read.xids_heard == measured(5)


def test_the_topology_of_a_gpu_with_mig_on() -> None:
    file = DATA / "nvidia-smi-single-gpu/h100-mig/topo-m.txt"
    topology = read_topology(file.read_bytes().decode())
    (gpu,) = topology.gpus
    assert topology.links == {} and topology.nvlinks_known
    assert gpu.cpus == (range(20),)
    assert gpu.numa_nodes == (0,) and gpu.own_numa_node is None
