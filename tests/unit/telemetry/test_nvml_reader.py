"""The reader on NVIDIA's own binding and a library without a GPU: values and errors' states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState, measured
from isocost.telemetry.nvml.counters import increase
from isocost.telemetry.nvml.sample import (
    GpuCondition,
    GpuLoad,
    NvLink,
    condition_signals,
    load_signals,
)
from tests.unit.telemetry.fake_gpus import FakeGpus, ReaderProcess, build_library

GIB = 1024**3
NOT_SUPPORTED, NO_PERMISSION, LOST, MISMATCH, UNKNOWN = "!3", "!4", "!15", "!18", "!999"
#: Every error of the binding, and one that it does not know.
ERRORS = [*range(1, 31), 998, 999]
UNSUPPORTING = {3, 4, 13, 22, 25, 26}


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


def load_of(reader: ReaderProcess, uuid: str = "GPU-a") -> GpuLoad:
    return next(gpu for gpu in reader.load().gpus if gpu.identity.uuid == uuid)


def condition_of(reader: ReaderProcess, uuid: str = "GPU-a") -> GpuCondition:
    return next(gpu for gpu in reader.condition().gpus if gpu.identity.uuid == uuid)


def stale(value: float, age_s: float) -> Signal:
    return Signal(SignalState.STALE, value, age_s)


def test_load_is_read_in_bytes_and_shares(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set(
        {
            "a.name": "NVIDIA H200",
            "a.pci": "00000000:1B:00.0",
            "a.memory_total": 140 * GIB,
            "a.memory_used": 100 * GIB,
            "a.memory_reserved": GIB,
            "a.utilization": 37,
            "a.memory_bandwidth": 90,
        }
    )
    gpu = load_of(reader)
    assert (gpu.identity.name, gpu.identity.pci_bus_id) == ("NVIDIA H200", "00000000:1B:00.0")
    assert gpu.memory_total_bytes == measured(140 * GIB)
    assert gpu.memory_free_bytes == measured(39 * GIB)
    assert gpu.memory_used_bytes == measured(100 * GIB)
    assert gpu.memory_reserved_bytes == measured(GIB)
    assert (gpu.gpu_utilisation, gpu.memory_busy) == (measured(0.37), measured(0.9))


def test_condition_is_read_in_its_units(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set(
        {
            "a.pcie_tx": 1_000_000,
            "a.pcie_rx": 500,
            "a.pcie_generation": 3,
            "a.pcie_width": 8,
            "a.pcie_replays": 7,
            "a.ecc_corrected": 5,
            "a.ecc_uncorrected": 1,
            "a.ecc_uncorrected_ever": 2,
            "a.rows_corrected": 3,
            "a.rows_uncorrected": 4,
            "a.rows_pending": 1,
            "a.temperature": 71,
            "a.power": 650_500,
            "a.clocks_event_reasons": 0x48,
            "a.processes": "4242:1048576,4243:-1",
        }
    )
    gpu = condition_of(reader)
    assert gpu.pcie_tx_bytes_per_s == measured(1e9)
    assert gpu.pcie_rx_bytes_per_s == measured(5e5)
    assert (gpu.pcie_generation, gpu.pcie_generation_max) == (measured(3), measured(5))
    assert (gpu.pcie_width, gpu.pcie_width_max) == (measured(8), measured(16))
    assert gpu.pcie_replays == measured(7)
    ecc = (gpu.ecc_corrected, gpu.ecc_uncorrected, gpu.ecc_uncorrected_ever)
    assert ecc == (measured(5), measured(1), measured(2))
    assert gpu.rows_remapped_corrected == measured(3)
    assert gpu.rows_remapped_uncorrected == measured(4)
    assert (gpu.row_remap_pending, gpu.row_remap_failed) == (measured(1), measured(0))
    assert (gpu.temperature_celsius, gpu.power_watts) == (measured(71), measured(650.5))
    assert gpu.clocks_event_reasons == measured(0x48)
    assert gpu.mig_enabled == measured(0)
    assert gpu.compute_processes == measured(2)
    processes = [(process.pid, process.memory_bytes) for process in gpu.processes]
    assert processes == [(4242, measured(1048576)), (4243, UNSUPPORTED)]


def test_each_nvlink_has_its_state_errors_and_other_end_and_a_gpu_the_errors_of_all(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set(
        {
            "a.nvlinks": 2,
            "a.nvlink.1.active": 0,
            "a.nvlink.1.remote": "00000000:C3:00.0",
            "a.nvlink.0.crc_flit": 2**32,
            "a.nvlink.1.crc_flit": 11,
            "a.nvlink.1.crc_data": 12,
            "a.nvlink.1.replays": 13,
            "a.nvlink.1.recoveries": NOT_SUPPORTED,
        }
    )
    gpu = condition_of(reader)
    first, second = gpu.links
    assert first.active == measured(1)
    assert second == NvLink(
        1,
        "00000000:C3:00.0",
        active=measured(0),
        crc_flit_errors=measured(11),
        crc_data_errors=measured(12),
        replays=measured(13),
        recoveries=UNSUPPORTED,
    )
    assert (first.crc_flit_errors, first.replays) == (measured(2**32), measured(0))
    assert gpu.nvlink_crc_flit_errors == measured(2**32 + 11)
    assert (gpu.nvlink_crc_data_errors, gpu.nvlink_replays) == (measured(12), measured(13))
    assert gpu.nvlink_recoveries == UNSUPPORTED
    reader.advance(0.5)
    gpus.set({"a.nvlink.1.replays": UNKNOWN})
    assert condition_of(reader).nvlink_replays == stale(13, 0.5)
    gpus.set({"a.nvlinks": 0})
    gpu = condition_of(reader)
    assert gpu.nvlink_crc_flit_errors == gpu.nvlink_crc_errors_per_minute == UNSUPPORTED


def test_a_link_that_is_down_is_no_link_without_a_state(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.nvlinks": 1, "a.nvlink.0.active": 0})
    assert condition_of(reader).links[0].active == measured(0)
    gpus.set({"a.nvlink.0.active": NOT_SUPPORTED})
    assert condition_of(reader).links[0].active == UNSUPPORTED


def test_the_errors_of_each_nvlink_are_read_where_there_are_some(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.nvlinks": 2})
    (first, second) = condition_of(reader).links
    assert first.crc_data_errors == second.replays == measured(0)
    for _ in range(2):
        reader.advance(0.5)
        gpus.set({"a.nvlink.1.replays": 3})
        (first, second) = condition_of(reader).links
    assert (first.replays, second.replays) == (measured(0), measured(3))
    assert second.crc_data_errors == measured(0)


def test_an_unsupported_field_is_no_zero_and_costs_no_other(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.power": NOT_SUPPORTED, "a.ecc_corrected": NO_PERMISSION, "a.temperature": 50})
    gpu = condition_of(reader)
    assert (gpu.power_watts, gpu.ecc_corrected) == (UNSUPPORTED, UNSUPPORTED)
    assert gpu.temperature_celsius == measured(50)
    gpus.unset("a.power")
    assert condition_of(reader).power_watts == measured(300)


@pytest.mark.parametrize("key", ["utilization", "temperature", "processes", "pcie_tx"])
def test_every_error_of_every_kind_of_call_has_a_state(
    key: str, gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.pcie_ms": 0, f"a.{key}": 1 if key != "processes" else "1:1"})
    names = {
        "utilization": "gpu_utilisation",
        "temperature": "temperature_celsius",
        "processes": "compute_processes",
        "pcie_tx": "pcie_tx_bytes_per_s",
    }
    read = load_of if key == "utilization" else condition_of
    last = getattr(read(reader), names[key])
    assert last.state is SignalState.MEASURED
    reader.advance(0.5)
    for code in ERRORS:
        if key == "processes" and code == 7:  # "There are more": not an error of that call.
            continue
        gpus.set({f"a.{key}": f"!{code}"})
        expected = UNSUPPORTED if code in UNSUPPORTING else stale(last.value, 0.5)
        assert getattr(read(reader), names[key]) == expected, code


def test_a_value_that_was_never_read_is_absent(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set({"a.temperature": UNKNOWN})
    assert condition_of(reader).temperature_celsius == ABSENT


def test_memory_falls_back_to_the_first_version_once(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set({"a.memory_v2": UNKNOWN, "a.memory_used": 3 * GIB, "a.memory_reserved": GIB})
    gpu = load_of(reader)
    assert gpu.memory_used_bytes == measured(4 * GIB)
    assert gpu.memory_free_bytes == measured(76 * GIB)
    assert gpu.memory_reserved_bytes == UNSUPPORTED
    gpus.unset("a.memory_v2")
    assert load_of(reader).memory_reserved_bytes == UNSUPPORTED


@pytest.mark.parametrize("total", ["0", NOT_SUPPORTED])
def test_a_gpu_without_memory_of_its_own_has_no_memory_signals(
    total: str, gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.memory_total": total, "a.utilization": 40})
    gpu = load_of(reader)
    assert gpu.memory_total_bytes == gpu.memory_free_bytes == UNSUPPORTED
    assert gpu.gpu_utilisation == measured(0.4)


def test_a_lost_gpu_is_lost_with_stale_values_until_it_is_back(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"gpus": "a,b", "a.utilization": 30, "b.utilization": 60})
    assert not load_of(reader).lost
    gpus.set({"a.all": LOST})
    for _ in range(3):  # In the round in which it went, and after NVML was opened anew.
        reader.advance(2)
        by_uuid = {gpu.identity.uuid: gpu for gpu in reader.load().gpus}
        gpu, other = by_uuid["GPU-a"], by_uuid["GPU-b"]
        assert gpu.lost and gpu.gpu_utilisation.state is SignalState.STALE
        assert gpu.gpu_utilisation.value == 0.3
        assert not other.lost and other.gpu_utilisation == measured(0.6)
    gpus.unset("a.all")
    reader.advance(30)
    assert not load_of(reader).lost
    assert load_of(reader).gpu_utilisation == measured(0.3)


def test_gpus_that_come_and_go_are_told_by_their_uuid(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    def uuids() -> set[str]:
        return {gpu.identity.uuid for gpu in reader.load().gpus}

    gpus.set({"gpus": "a,b,c", "b.uuid": "GPU-second"})
    assert uuids() == {"GPU-a", "GPU-second", "GPU-c"}
    gpus.set({"gpus": "c,a"})
    reader.load()
    reader.advance(1)
    assert uuids() == {"GPU-a", "GPU-c"}
    gpus.set({"gpus": "d,c,a"})
    reader.advance(30)
    assert uuids() == {"GPU-a", "GPU-c"}, "without a reason NVML is not initialised anew"
    reader.look_again()
    assert uuids() == {"GPU-a", "GPU-c", "GPU-d"}


def test_a_driver_that_was_loaded_anew_is_opened_anew(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.utilization": 30})
    load_of(reader)
    gpus.set({"driver": 2, "a.utilization": 70})
    reader.advance(0.5)
    assert load_of(reader).gpu_utilisation == stale(0.3, 0.5)
    reader.advance(1)
    assert load_of(reader).gpu_utilisation == measured(0.7)


def test_a_driver_of_another_version_is_told_and_its_gpus_are_stale_until_it_fits(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.utilization": 30})
    load_of(reader)
    gpus.set({"driver": 2, "init": MISMATCH})
    reader.load()
    reader.advance(1)
    result = reader.load()
    assert "mismatch" in result.error
    assert result.gpus[0].gpu_utilisation == stale(0.3, 1.0) and not result.gpus[0].lost
    gpus.unset("init")
    reader.advance(2)
    result = reader.load()
    assert result.error == "" and result.gpus[0].gpu_utilisation == measured(0.3)


def test_another_user_who_shuts_nvml_down_costs_one_round(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.utilization": 30})
    load_of(reader)
    reader.run("pynvml.nvmlShutdown()")
    assert load_of(reader).gpu_utilisation == stale(0.3, 0)
    reader.advance(1)
    assert load_of(reader).gpu_utilisation == measured(0.3)


def test_without_the_library_there_are_no_gpus_and_a_reason(gpus: FakeGpus, tmp_path: Path) -> None:
    environment = {**gpus.environment, "LD_LIBRARY_PATH": str(tmp_path)}
    with ReaderProcess(environment) as reader:
        result = reader.load()
    assert result.gpus == () and "Shared Library Not Found" in result.error


def test_a_mig_slice_has_its_own_memory_and_the_condition_of_its_gpu(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set(
        {
            "a.mig": "1,2",
            "a.utilization": NOT_SUPPORTED,
            "a.temperature": 66,
            "a.1.uuid": "MIG-one",
            "a.1.memory_total": 20 * GIB,
            "a.1.memory_used": GIB,
            "a.2.processes": "77:5",
        }
    )
    loads = {gpu.identity.uuid: gpu for gpu in reader.load().gpus}
    assert set(loads) == {"GPU-a", "MIG-one", "MIG-a.2"}
    assert loads["GPU-a"].gpu_utilisation == loads["MIG-one"].gpu_utilisation == UNSUPPORTED
    assert loads["MIG-one"].memory_total_bytes == measured(20 * GIB)
    assert loads["MIG-one"].memory_used_bytes == measured(GIB)
    assert loads["MIG-one"].identity.parent_uuid == "GPU-a"
    one, two = condition_of(reader, "MIG-one"), condition_of(reader, "MIG-a.2")
    assert one.temperature_celsius == two.temperature_celsius == measured(66)
    assert one.mig_enabled == measured(1)
    assert (one.compute_processes, two.compute_processes) == (measured(0), measured(1))
    gpus.set({"a.mig": "2"})
    reader.advance(0.4)
    assert {gpu.identity.uuid for gpu in reader.load().gpus} == {"GPU-a", "MIG-a.2"}


def test_every_xid_is_heard_once(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set({"gpus": "a,b", "a.xids": "13"})
    first = reader.condition()
    assert (first.xids, first.xids_heard) == ((), measured(0))
    gpus.set({"a.xids": "13,62,45", "b.xids": "79"})
    second = reader.condition()
    assert sorted(second.xids) == [("GPU-a", 45), ("GPU-a", 62), ("GPU-b", 79)]
    assert second.xids_heard == measured(3)
    assert reader.condition().xids == ()


def test_silence_of_a_broken_event_stream_is_not_health(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    reader.condition()
    gpus.set({"event_wait": UNKNOWN})
    reader.advance(0.5)
    assert reader.condition().xids_heard == stale(0, 0.5)
    gpus.unset("event_wait")
    reader.advance(1)
    assert reader.condition().xids_heard == measured(0)


def test_a_counter_of_32_bits_wraps_in_the_driver_and_not_in_its_increase(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.pcie_replays": 2**32 - 2})
    before = condition_of(reader).pcie_replays
    gpus.set({"a.pcie_replays": 2**32 + 3})
    now = condition_of(reader).pcie_replays
    assert now == measured(3)
    assert increase(before, now) == measured(5)


def test_a_counter_that_began_anew_rose_by_what_it_shows() -> None:
    assert increase(measured(1000), measured(4)) == measured(4)
    assert increase(measured(4), stale(9, 2)) == stale(5, 2)
    assert increase(UNSUPPORTED, measured(4)) == UNSUPPORTED
    assert increase(ABSENT, measured(4)) == ABSENT


def throughputs(reader: ReaderProcess) -> dict[str, Signal]:
    return {gpu.identity.uuid: gpu.pcie_tx_bytes_per_s for gpu in reader.condition().gpus}


def test_pcie_throughput_is_read_of_two_gpus_a_round_in_turn(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    names = "abcde"
    gpus.set({"gpus": ",".join(names), **{f"{name}.pcie_tx": 1 for name in names}})
    assert set(throughputs(reader).values()) == {measured(1000)}, "at first of all"
    gpus.set({f"{name}.pcie_tx": 2 for name in names})
    new, old = measured(2000), measured(1000)

    def after_half_a_second() -> list[Signal]:
        reader.advance(0.5)
        return list(throughputs(reader).values())

    assert after_half_a_second() == [new, new, *3 * [Signal(old.state, 1000, 0.5)]]
    ages = [(signal.value, signal.age_s) for signal in after_half_a_second()]
    assert ages == [(2000, 0.5), (2000, 0.5), (2000, 0), (2000, 0), (1000, 1)]
    ages = [(signal.value, signal.age_s) for signal in after_half_a_second()]
    assert ages == [(2000, 0), (2000, 1), (2000, 0.5), (2000, 0.5), (2000, 0)]


def test_a_turn_that_is_late_makes_its_values_stale(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set({"gpus": "a,b,c", "c.pcie_tx": 5})
    throughputs(reader)
    # With three GPUs a turn takes two rounds of half a second, and may be 0.75 s late.
    reader.advance(1.75)
    assert throughputs(reader)["GPU-c"] == Signal(SignalState.MEASURED, 5000, 1.75)
    reader.advance(0.01)
    assert throughputs(reader)["GPU-c"] == measured(5000)
    reader.advance(1.76)
    assert throughputs(reader)["GPU-c"] == stale(5000, pytest.approx(1.76))


@pytest.mark.parametrize("fault", [{"c.all": LOST}, {"driver": 2}])
def test_a_gpu_that_does_not_answer_has_no_measured_values_of_an_earlier_turn(
    fault: dict[str, object], gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"gpus": "a,b,c", "c.pcie_tx": 5})
    throughputs(reader)
    gpus.set(fault)
    reader.advance(0.5)
    assert throughputs(reader)["GPU-c"] == stale(5000, 0.5)


def test_memory_that_contradicts_itself_is_not_measured_and_told(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"gpus": "a,b", "a.memory_used": 80 * GIB + 1, "b.memory_used": GIB})
    result = reader.load()
    a, b = result.gpus
    assert a.memory_used_bytes == a.memory_free_bytes == a.memory_total_bytes == ABSENT
    assert a.gpu_utilisation == measured(0) and b.memory_used_bytes == measured(GIB)
    assert result.warnings == ("GPU-a: NVML's figures of its memory contradict each other",)
    gpus.set({"a.memory_used": 80 * GIB})
    assert load_of(reader).memory_used_bytes == measured(80 * GIB)
    gpus.set({"a.memory_v2": UNKNOWN, "a.memory_used": 81 * GIB})
    reader.advance(0.2)
    assert load_of(reader).memory_used_bytes == stale(80 * GIB, pytest.approx(0.2))


@pytest.mark.parametrize("code", [LOST, "!2", "!6"])
def test_a_slice_that_is_gone_is_lost_and_then_not_listed(
    code: str, gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.mig": "1,2", "a.1.uuid": "MIG-one", "a.1.memory_used": GIB})
    load_of(reader, "MIG-one")
    gpus.set({"a.1.memory_total": code, "a.1.processes": code})
    reader.advance(0.2)
    gone = load_of(reader, "MIG-one")
    assert gone.lost and gone.memory_used_bytes == stale(GIB, pytest.approx(0.2))
    assert not load_of(reader, "MIG-a.2").lost and not load_of(reader).lost
    gpus.set({"a.mig": "2"})
    reader.advance(1)
    assert {gpu.identity.uuid for gpu in reader.load().gpus} == {"GPU-a", "MIG-a.2"}


def test_the_binding_finds_a_gpu_by_its_uuid(gpus: FakeGpus, reader: ReaderProcess) -> None:
    gpus.set({"gpus": "a,b"})
    reader.load()
    code = "pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByUUID('GPU-b'))"
    assert reader.run(code) == "GPU-b"


def test_a_report_has_both_directions_of_pcie_and_the_share_of_links_that_are_up(
    gpus: FakeGpus, reader: ReaderProcess
) -> None:
    gpus.set({"a.pcie_tx": 2, "a.pcie_rx": 3, "a.nvlinks": 4, "a.nvlink.2.active": 0})
    load = load_of(reader)
    assert load_signals(load)["vram_free_bytes"] == load.memory_free_bytes
    told = condition_signals(condition_of(reader))
    assert told["pcie_bytes_per_s"] == measured(5000)
    assert told["nvlink_active_fraction"] == measured(0.75)
    gpus.set({"a.pcie_rx": NOT_SUPPORTED, "a.nvlinks": 0})
    reader.condition(scan=True)
    told = condition_signals(condition_of(reader))
    assert told["pcie_bytes_per_s"] == told["nvlink_active_fraction"] == UNSUPPORTED
