"""A node's part of a fake machine as an agent reads it: by NVML's own binding, and as files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from isocost.errors import StartError
from isocost.fake.engine import Engine
from isocost.fake.hardware import Hardware
from isocost.fake.machine import agent_environment
from isocost.fake.models import model_named
from isocost.fake.node_machine import NodeMachine, install
from isocost.fake.server import start
from isocost.fake.shared_cards import SharedCards
from isocost.fake.strict import BadRequestError
from isocost.fake.telemetry import BUSY_UTILISATION, FakeTelemetry
from isocost.fake.traffic import Traffic
from isocost.model import SignalState
from tests.unit.fake.engines import submit
from tests.unit.fake.node_client import NodeClient, running, settings, until
from tests.unit.telemetry.fake_gpus import ROOT, ReaderProcess, build_library

MODEL = model_named("llama-3.1-8b")
MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def _library() -> None:
    build_library()


def reader(machine: Path) -> ReaderProcess:
    """As an agent of the machine has it."""
    environment = {**os.environ, **agent_environment(machine)}
    return ReaderProcess({**environment, "PYTHONPATH": str(ROOT / "control_plane")})


class Bench:
    """A node of two cards, on a clock that the test turns."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 0.0
        self.settings = settings(hardware=Hardware("H100", 2, MODEL), machine=folder)
        self.traffic = Traffic(0.0)
        self.machine = NodeMachine(self.settings, folder, self.traffic)
        self.folder = folder
        self.restart()

    def restart(self) -> None:
        """A new engine."""
        hardware = self.settings.hardware
        self.engine = Engine(hardware.speed, hardware.kv_blocks, 128)
        self.telemetry = FakeTelemetry(
            self.settings, SharedCards([self.engine]), self.traffic, lambda: self.now_s, time.time
        )

    def at(self, now_s: float, up: bool = True) -> None:
        self.now_s = now_s
        self.engine.advance(now_s)
        self.machine.update(now_s, self.telemetry if up else None)

    def counted(self) -> list[int | str]:
        """Sent and received, in words."""
        counters = self.folder / "sys/class/infiniband/n1/ports/1/counters"
        texts = [
            (counters / name).read_text().strip() for name in ("port_xmit_data", "port_rcv_data")
        ]
        return [int(text) if text.isdecimal() else text for text in texts]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "machine")


@pytest.fixture
def nvml(bench: Bench) -> Iterator[ReaderProcess]:
    bench.at(0.0)
    with reader(bench.folder) as process:
        yield process


def test_cards_tell_what_they_are_and_their_memory(bench: Bench, nvml: ReaderProcess) -> None:
    load = nvml.load().gpus
    assert [gpu.identity.uuid for gpu in load] == list(bench.settings.gpu_uuids)
    assert {gpu.identity.name for gpu in load} == {"NVIDIA H100 80GB HBM3"}
    assert len({gpu.identity.pci_bus_id for gpu in load}) == 2
    for gpu in load:
        assert gpu.memory_total_bytes.value == 81_559 * MIB
        assert gpu.memory_reserved_bytes.value == 479 * MIB
        assert gpu.memory_free_bytes.value == bench.settings.hardware.vram_free_bytes
    for gpu in nvml.condition().gpus:
        assert [link.active.value for link in gpu.links] == [1.0] * 18
        assert gpu.power_watts.value == bench.settings.hardware.card.loaded_w


def test_signals_follow_the_load(bench: Bench, nvml: ReaderProcess) -> None:
    submit(bench.engine, 0.0, 100, 500)
    for tick in range(1, 21):
        bench.at(tick * 0.1)
    load, condition = nvml.load().gpus[1], nvml.condition().gpus[1]
    assert load.gpu_utilisation.value == round(BUSY_UTILISATION, 2)
    assert condition.pcie_tx_bytes_per_s.value + condition.pcie_rx_bytes_per_s.value == 0.5e9
    assert condition.power_watts.value == pytest.approx(207, abs=1)
    warm_c = condition.temperature_celsius.value
    for tick in range(21, 60):
        bench.at(tick * 0.2)
    load, condition = nvml.load().gpus[1], nvml.condition().gpus[1]
    assert load.gpu_utilisation.value == condition.pcie_tx_bytes_per_s.value == 0.0
    assert condition.temperature_celsius.value < warm_c


def test_the_engine_is_a_process_that_holds_memory_and_the_driver(
    bench: Bench, nvml: ReaderProcess
) -> None:
    first = engine_of(bench, nvml)
    bench.restart()
    bench.at(1.0)
    second = engine_of(bench, nvml)
    assert first != second
    bench.at(2.0, up=False)
    assert processes(bench) == []
    for gpu in nvml.condition().gpus:
        assert gpu.processes == () and gpu.compute_processes.value == 0
    for gpu in nvml.load().gpus:
        assert gpu.memory_free_bytes.value == (81_559 - 479) * MIB


def engine_of(bench: Bench, nvml: ReaderProcess) -> int:
    """The process id that NVML and /proc agree on."""
    (folder,) = processes(bench)
    load, condition = nvml.load().gpus, nvml.condition().gpus
    for one, other in zip(load, condition, strict=True):
        (process,) = other.processes
        assert process.pid == int(folder.name)
        assert process.memory_bytes == one.memory_used_bytes
    handles = [path.readlink() for path in (folder / "fd").iterdir()]
    assert len(handles) == 24
    assert {str(path) for path in handles} == {
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
    }
    pid, rest = (folder / "stat").read_text().split(" (fake engine) ")
    fields = rest.split()
    assert pid == folder.name and len(fields) == len(own_stat())
    # Start times are on the machine's clock.
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    assert 0 <= uptime_s - int(fields[19]) / os.sysconf("SC_CLK_TCK") < 600
    return int(pid)


def own_stat() -> list[str]:
    return Path("/proc/self/stat").read_text().rpartition(")")[2].split()


def processes(bench: Bench) -> list[Path]:
    return [path for path in (bench.folder / "proc").iterdir() if path.name.isdecimal()]


@pytest.mark.parametrize(
    ("order", "state", "values"),
    [
        ({"vram_free_bytes": 5}, SignalState.MEASURED, {"memory_free_bytes": 5}),
        (
            {"vram_total_bytes": 1000},
            SignalState.MEASURED,
            {"memory_total_bytes": 1000, "memory_free_bytes": 1000, "memory_used_bytes": 0},
        ),
        ({"vram_free_bytes": "unsupported"}, SignalState.UNSUPPORTED, {"memory_free_bytes": 0}),
        ({"vram_total_bytes": "absent"}, SignalState.STALE, {"memory_free_bytes": 8_049_813_095}),
        ({"gpu_utilisation": 0.55}, SignalState.MEASURED, {"gpu_utilisation": 0.55}),
        ({"gpu_utilisation": "absent"}, SignalState.STALE, {"gpu_utilisation": 0}),
        (
            {"pcie_bytes_per_s": 9001},
            SignalState.MEASURED,
            {"pcie_tx_bytes_per_s": 4000, "pcie_rx_bytes_per_s": 5000},
        ),
        (
            {"pcie_bytes_per_s": "unsupported"},
            SignalState.UNSUPPORTED,
            {"pcie_tx_bytes_per_s": 0, "pcie_rx_bytes_per_s": 0},
        ),
        ({"power_w": 650.5}, SignalState.MEASURED, {"power_watts": 650.5}),
        ({"power_w": "absent"}, SignalState.STALE, {"power_watts": 120}),
    ],
)
def test_orders_to_the_telemetry_reach_the_library(
    bench: Bench,
    nvml: ReaderProcess,
    order: dict[str, object],
    state: SignalState,
    values: dict[str, float],
) -> None:
    nvml.load(), nvml.condition()
    bench.telemetry.order(order)
    bench.at(1.0)
    load, condition = nvml.load().gpus[0], nvml.condition().gpus[0]
    for name, value in values.items():
        signal = getattr(load if hasattr(load, name) else condition, name)
        assert (signal.state, signal.value) == (state, value)


@pytest.mark.parametrize(
    ("fraction", "active"),
    [(1.0, [1.0] * 18), (0.5, [1.0] * 9 + [0.0] * 9), (0.0, [0.0] * 18)],
)
def test_an_ordered_share_of_links_is_up(
    bench: Bench, nvml: ReaderProcess, fraction: float, active: list[float]
) -> None:
    bench.telemetry.order({"nvlink_active_fraction": fraction})
    bench.at(1.0)
    assert [link.active.value for link in nvml.condition().gpus[0].links] == active


def test_orders_to_one_card_stand_above_its_own_numbers_until_they_are_let_go(
    bench: Bench, nvml: ReaderProcess
) -> None:
    nvml.condition()
    orders = {"temperature": 93, "nvlink.3.active": 0, "rows_pending": "1", "xids": "79"}
    bench.machine.orders.order({"1": {**orders, "power": "!15"}})
    bench.restart()
    bench.at(1.0)
    round_ = nvml.condition()
    one, other = round_.gpus
    assert other.temperature_celsius.value == 93 and one.temperature_celsius.value < 93
    assert [link.link for link in other.links if link.active.value == 0] == [3]
    assert (other.row_remap_pending.value, one.row_remap_pending.value) == (1, 0)
    assert round_.xids == ((bench.settings.gpu_uuids[1], 79),)
    assert (one.lost, other.lost) == (False, True)
    uuid = bench.settings.gpu_uuids[1]
    bench.machine.orders.order({uuid: {**dict.fromkeys(orders), "power": None}})
    bench.at(2.0)
    one, other = nvml.condition().gpus
    assert other.temperature_celsius == one.temperature_celsius
    assert not other.lost and other.row_remap_pending.value == 0


@pytest.mark.parametrize(
    ("order", "field", "allowed"),
    [
        ({"2": {}}, "2", "must be the index or the UUID of a GPU: GPU-"),
        ({"GPU-x": {}}, "GPU-x", "must be the index or the UUID"),
        ({"0": 5}, "0", "must be an object"),
        ({"0": {"temperatur": 1}}, "0.temperatur", "known here: name, pci, .*temperature"),
        ({"0": {"nvlink.18.active": 0}}, "0.nvlink.18.active", "with N below 18"),
        ({"0": {"temperature": -1}}, "0.temperature", "an integer of at least 0"),
        ({"0": {"temperature": True}}, "0.temperature", "hang, or ! and the number"),
        ({"0": {"temperature": 1.5}}, "0.temperature", "an integer"),
        ({"0": {"name": "a\nb"}}, "0.name", "a text of at most 1000"),
        ({"0": {"temperature": "warm"}}, "0.temperature", "an integer of at least 0"),
        ({"0": {"pcie_width": "x8"}}, "0.pcie_width", "an integer of at least 0"),
        ({"0": {"utilization": 101}}, "0.utilization", "an integer from 0 to 100"),
        ({"0": {"memory_bandwidth": "full"}}, "0.memory_bandwidth", "an integer from 0 to 100"),
        ({"0": {"xids": "abc"}}, "0.xids", "numbers separated by commas, at most 200"),
        ({"0": {"xids": "79,"}}, "0.xids", "at most 200"),
        ({"0": {"xids": "62, 45"}}, "0.xids", "at most 200"),
        ({"0": {"xids": ",".join(["13"] * 201)}}, "0.xids", "at most 200"),
        ({"0": {"all": 1}}, "0.all", "nothing else"),
        ({"0": {"all": "!1000"}}, "0.all", "nothing else"),
    ],
)
def test_a_bad_order_to_a_card_names_the_field_and_orders_nothing(
    bench: Bench, order: dict[str, object], field: str, allowed: str
) -> None:
    with pytest.raises(BadRequestError, match=allowed) as error:
        bench.machine.orders.order({"1": {"power": 7}, **order})
    assert error.value.field == field
    assert bench.machine.orders.of(1) == {}


@pytest.mark.parametrize(
    ("key", "values"),
    {
        "xids": [79, "62,45,62", "!15", "hang"],
        "utilization": [0, 9, "99", 100, "!3", "hang"],
        "pcie_width": [8, "!999", "hang"],
    }.items(),
)
def test_a_card_takes_a_number_an_error_or_a_hang(
    bench: Bench, key: str, values: list[object]
) -> None:
    for value in values:
        bench.machine.orders.order({"0": {key: value}})
        assert bench.machine.orders.of(0) == {key: str(value)}


def test_counters_rise_by_the_traffic_and_at_an_ordered_rate(bench: Bench) -> None:
    bench.at(1.0)
    assert bench.counted() == [0, 0]
    bench.traffic.sent_bytes, bench.traffic.received_bytes = 4000, 402
    bench.at(2.0)
    assert bench.counted() == [1000, 100]
    bench.telemetry.order({"net_bytes_per_s": 80_000})
    bench.traffic.sent_bytes += 4_000_000
    bench.at(4.5)
    assert bench.counted() == [1000 + 25_000, 100 + 25_000]
    bench.telemetry.order({"net_bytes_per_s": None})
    bench.restart()
    bench.traffic.sent_bytes += 4
    bench.at(5.0)
    assert bench.counted() == [26_001, 25_100]


def test_counters_can_be_gone_or_unreadable(bench: Bench) -> None:
    bench.telemetry.order({"net_bytes_per_s": "unsupported"})
    bench.at(1.0)
    assert bench.counted() == ["N/A (no PMA)"] * 2
    bench.telemetry.order({"net_bytes_per_s": "absent"})
    bench.at(2.0)
    with pytest.raises(FileNotFoundError):
        bench.counted()
    bench.telemetry.order({"net_bytes_per_s": None})
    bench.at(3.0)
    assert bench.counted() == [0, 0]


def test_the_machine_has_a_loopback_device_unless_it_has_its_own_list(bench: Bench) -> None:
    path = bench.folder / "proc" / "net" / "dev"
    bench.at(0.0)
    lines = path.read_text().splitlines()
    assert len(lines) == 3 and lines[2].split()[0] == "lo:"
    assert len(lines[2].split()) == len(Path("/proc/net/dev").read_text().splitlines()[2].split())
    path.write_text("another\n")
    bench.at(1.0)
    assert path.read_text() == "another\n"


def test_files_that_say_the_same_are_not_written_again(bench: Bench) -> None:
    bench.at(0.0)
    files = [path for path in bench.folder.rglob("*") if path.is_file()]
    before = {path: path.stat().st_ino for path in files}
    bench.at(1.0)
    assert {path: path.stat().st_ino for path in files} == before
    assert len(files) == 5


async def test_nodes_share_a_machine_and_take_their_part_with_them(tmp_path: Path) -> None:
    machine = tmp_path / "machine"
    async with running(name="one", machine=machine), running(name="two", machine=machine):
        assert sorted(path.name for path in (machine / "nvml").iterdir()) == ["one", "two"]
        with reader(machine) as nvml:
            gpus = nvml.load().gpus
        expected = [*settings(name="one").gpu_uuids, *settings(name="two").gpu_uuids]
        assert [gpu.identity.uuid for gpu in gpus] == expected
        assert len({gpu.identity.pci_bus_id for gpu in gpus}) == 2
    files = [path for path in machine.rglob("*") if path.is_file()]
    assert files == [machine / "proc" / "net" / "dev"]


def test_installed_cards_have_no_process_yet(tmp_path: Path) -> None:
    install(settings(machine=tmp_path))
    with reader(tmp_path) as nvml:
        (load,), (condition,) = nvml.load().gpus, nvml.condition().gpus
    assert load.identity.uuid == settings().gpu_uuids[0]
    assert load.memory_used_bytes.value == 0 and condition.processes == ()
    assert condition.power_watts.value == settings().hardware.card.idle_w


async def test_a_machine_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match="file"):
        await start(settings(machine=tmp_path / "file"))


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NodeClient]:
    async with running(machine=tmp_path) as client:
        yield client


def state(folder: Path) -> str:
    return (folder / "nvml" / "n1").read_text()


def value_of(folder: Path, key: str) -> str:
    (value,) = re.findall(rf"\.{re.escape(key)}=(.*)", state(folder))
    return str(value)


async def test_an_order_is_in_the_files_when_it_is_answered(
    node: NodeClient, tmp_path: Path
) -> None:
    status, page = await node.post("/fake/gpus", {"0": {"temperature": 93, "all": "hang"}})
    assert status == 200
    assert page["gpus"][0]["orders"] == {"temperature": "93", "all": "hang"}
    assert page["gpus"][0]["state"]["temperature"] == "93"
    assert (value_of(tmp_path, "temperature"), value_of(tmp_path, "all")) == ("93", "hang")
    await node.post("/fake/telemetry", {"vram_total_bytes": 4096})
    assert value_of(tmp_path, "memory_total") == "4096"
    status, error = await node.post("/fake/gpus", {"0": {"heat": 1}})
    assert status == 400 and error["error"]["param"] == "0.heat"
    await node.post("/fake/gpus", {"0": {"temperature": None, "all": None}})
    assert value_of(tmp_path, "temperature") != "93" and ".all=" not in state(tmp_path)


async def test_a_node_without_a_machine_has_no_gpus_to_order_from() -> None:
    async with running() as alone:
        status, answer = await alone.post("/fake/gpus", {"0": {"temperature": 93}})
    assert status == 400 and "--machine" in answer["error"]["message"]


async def test_a_restarted_engine_is_another_process_on_the_same_cards(
    node: NodeClient, tmp_path: Path
) -> None:
    await node.post("/fake/gpus", {"0": {"temperature": 93}})
    before = value_of(tmp_path, "processes")
    await node.order("restart", down_s=0.5)
    assert ".processes=" not in state(tmp_path) and value_of(tmp_path, "memory_used") == "0"
    assert value_of(tmp_path, "temperature") == "93"

    async def up() -> bool:
        return ".processes=" in state(tmp_path)

    await until(up)
    assert value_of(tmp_path, "processes") != before
    assert value_of(tmp_path, "temperature") == "93"


async def test_frozen_files_stand_still_and_go_on_at_the_end(
    node: NodeClient, tmp_path: Path
) -> None:
    await node.order("frozen_metrics")
    before = state(tmp_path)
    await node.post("/fake/telemetry", {"vram_total_bytes": 4096})
    await node.post("/v1/completions", {"prompt": "x" * 400, "max_tokens": 50})
    assert state(tmp_path) == before
    await node.clear()
    assert value_of(tmp_path, "memory_total") == "4096"


async def test_stale_files_tell_no_number_and_lose_no_gpu(node: NodeClient, tmp_path: Path) -> None:
    with reader(tmp_path) as nvml:
        fresh = loads_and_conditions(nvml)
        await node.order("stale_metrics")
        stale = loads_and_conditions(nvml)
        scanned = nvml.load(scan=True).gpus
        await node.clear()
        again = loads_and_conditions(nvml)
    for gpus, expected in ((fresh, "MEASURED"), (stale, "STALE"), (again, "MEASURED")):
        load, condition = gpus
        signals = [load.memory_free_bytes, load.gpu_utilisation, condition.pcie_tx_bytes_per_s]
        signals += [condition.power_watts, *(link.active for link in condition.links)]
        assert {signal.state.name for signal in signals} == {expected}
        assert len(condition.links) == 18 and not load.lost
    assert len(scanned) == 1 and not scanned[0].lost


def loads_and_conditions(nvml: ReaderProcess) -> tuple[Any, Any]:
    (load,), (condition,) = nvml.load().gpus, nvml.condition().gpus
    return load, condition
