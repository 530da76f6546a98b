"""How near two devices are, by the kernel's tree of PCIe devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from isocost.telemetry.topology.machine import LinkKind
from isocost.telemetry.topology.sysfs import Place, Sysfs, way
from tests.unit.telemetry.nvlink_machines import PciTree

HOST = "pci0000:10"
#: One switch: a port above, and one below for each device.
SWITCH = (HOST, "0000:10:01.0", "0000:11:00.0")


def place(*path: str, numa_node: int | None = 0) -> Place:
    return Place(path, numa_node)


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        # Two functions of one card.
        (
            place(HOST, "0000:10:01.0", "0000:11:00.0"),
            place(HOST, "0000:10:01.0", "0000:11:00.1"),
            LinkKind.PIX,
        ),
        (
            place(*SWITCH, "0000:12:00.0", "0000:13:00.0"),
            place(*SWITCH, "0000:12:01.0", "0000:14:00.0"),
            LinkKind.PIX,
        ),
        # A switch under a switch.
        (
            place(*SWITCH, "0000:12:00.0", "0000:13:00.0"),
            place(*SWITCH, "0000:12:01.0", "0000:14:00.0", "0000:15:00.0", "0000:16:00.0"),
            LinkKind.PXB,
        ),
        # One more bridge than a switch has.
        (
            place(*SWITCH, "0000:12:00.0", "0000:13:00.0", "0000:14:00.0"),
            place(*SWITCH, "0000:12:01.0", "0000:15:00.0"),
            LinkKind.PXB,
        ),
        # Two root ports of one host bridge.
        (
            place(*SWITCH, "0000:12:00.0", "0000:13:00.0"),
            place(HOST, "0000:10:02.0", "0000:20:00.0"),
            LinkKind.PHB,
        ),
        (place(HOST, "0000:10:00.0"), place(HOST, "0000:10:05.0"), LinkKind.PHB),
        (place(HOST, "0000:10:00.0"), place("pci0000:20", "0000:20:00.0"), LinkKind.NODE),
        (
            place(HOST, "0000:10:00.0"),
            place("pci0000:20", "0000:20:00.0", numa_node=1),
            LinkKind.SYS,
        ),
        (
            place(HOST, "0000:10:00.0", numa_node=None),
            place("pci0000:20", "0000:20:00.0", numa_node=1),
            LinkKind.UNKNOWN,
        ),
        (place(HOST, "0000:10:00.0"), None, LinkKind.UNKNOWN),
    ],
)
def test_ways(one: Place, other: Place | None, kind: LinkKind) -> None:
    assert way(one, other) is kind
    assert way(other, one) is kind


def test_a_device_is_found_as_nvml_writes_it(tmp_path: Path) -> None:
    tree = PciTree(tmp_path / "sys")
    tree.add("pci0000:10/0000:10:01.0/0000:1b:00.0", numa_node=3)
    tree.add("LNXSYSTM:00/VMBUS:00/pci10001:00/10001:00:00.0", numa_node="")
    sysfs = Sysfs(tree.root)
    assert sysfs.place("00000000:1B:00.0") == place(
        "pci0000:10", "0000:10:01.0", "0000:1b:00.0", numa_node=3
    )
    assert sysfs.place("00010001:00:00.0") == place("pci10001:00", "10001:00:00.0", numa_node=None)
    assert sysfs.place("00000000:2B:00.0") is None


@pytest.mark.parametrize("bus_id", ["", "none", "../../../etc", "00000000:1B:00"])
def test_what_is_no_bus_id_is_no_device(bus_id: str, tmp_path: Path) -> None:
    tree = PciTree(tmp_path / "sys")
    tree.add("pci0000:10/0000:1b:00.0", numa_node=3, local_cpulist="0-7")
    sysfs = Sysfs(tree.root)
    assert sysfs.place(bus_id) is sysfs.cpus(bus_id) is sysfs.is_switch(bus_id) is None


@pytest.mark.parametrize(
    ("kind", "is_switch"), [("0x068000", True), ("0x030200", False), ("0x020700", None), ("", None)]
)
def test_kinds_of_devices(kind: str, is_switch: bool | None, tmp_path: Path) -> None:
    tree = PciTree(tmp_path / "sys")
    tree.add("pci0000:10/0000:1b:00.0", **{"class": kind})
    assert Sysfs(tree.root).is_switch("00000000:1B:00.0") is is_switch


@pytest.mark.parametrize("text", ["", "0-", "a", "7-0", "0-3;5"])
def test_cores_that_nobody_understands_are_not_known(text: str, tmp_path: Path) -> None:
    tree = PciTree(tmp_path / "sys")
    tree.add("pci0000:10/0000:1b:00.0", local_cpulist=text)
    assert Sysfs(tree.root).cpus("00000000:1B:00.0") is None


def test_nics_are_those_on_pcie_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    tree = PciTree(tmp_path / "sys")
    for number in (10, 2, 1):
        tree.add_nic(f"mlx5_{number}", f"pci0000:10/0000:{number:02}:00.0", numa_node=0)
    tree.name_nic("rxe0", tmp_path)
    nics = Sysfs(tree.root).nics()
    assert [name for name, _ in nics] == ["mlx5_1", "mlx5_2", "mlx5_10"]
    assert nics[0][1] == place("pci0000:10", "0000:01:00.0")


def test_a_machine_without_rdma_has_no_such_nics(tmp_path: Path) -> None:
    assert Sysfs(tmp_path).nics() == []
