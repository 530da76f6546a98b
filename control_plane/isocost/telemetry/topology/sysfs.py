"""What the kernel says of PCIe devices: NUMA nodes and cores near them, how far apart they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isocost.telemetry.topology.machine import LinkKind, ranges_of

_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_NVML_BUS_ID = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")
_CPU_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
#: PCI base class and subclass: bridges that are none of PCI's, such as NVSwitches; and displays.
_OTHER_BRIDGE = "0x0680"
_DISPLAY = "0x03"


@dataclass(frozen=True, slots=True)
class Place:
    """``path`` is the host bridge, then every bridge down to the device. None: not known."""

    path: tuple[str, ...]
    numa_node: int | None


@dataclass(frozen=True, slots=True)
class Sysfs:
    """A tree like /sys; whatever it lacks is not known."""

    root: Path = Path("/sys")

    def place(self, bus_id: str) -> Place | None:
        return _place(self._device(bus_id))

    def cpus(self, bus_id: str) -> tuple[range, ...] | None:
        text = _read(self._device(bus_id) / "local_cpulist")
        parts = [_CPU_RANGE.fullmatch(part) for part in text.split(",")]
        if not all(parts):
            return None
        cores = (
            core
            for part in parts
            if part
            for core in range(int(part[1]), int(part[2] or part[1]) + 1)
        )
        return ranges_of(cores) or None

    def is_switch(self, bus_id: str) -> bool | None:
        """Whether an NVLink to this device leads to a switch; None: the kernel does not see it."""
        kind = _read(self._device(bus_id) / "class")
        if kind.startswith(_OTHER_BRIDGE):
            return True
        return False if kind.startswith(_DISPLAY) else None

    def nics(self) -> list[tuple[str, Place]]:
        """The NICs on PCIe that can do RDMA, by name: mlx5_2 before mlx5_10."""
        folders = (self.root / "class" / "infiniband").glob("*")
        found = [(folder.name, _place(folder / "device")) for folder in folders]
        return sorted(
            ((name, place) for name, place in found if place is not None),
            key=lambda nic: [
                (not part.isdigit(), int(part) if part.isdigit() else 0, part)
                for part in re.split(r"([0-9]+)", nic[0])
            ],
        )

    def _device(self, bus_id: str) -> Path:
        return self.root / "bus" / "pci" / "devices" / (kernel_bus_id(bus_id) or "none")


def kernel_bus_id(bus_id: str) -> str:
    """NVML writes 00000000:1B:00.0 where the kernel writes 0000:1b:00.0; "": it is none."""
    match = _NVML_BUS_ID.fullmatch(bus_id)
    return f"{int(match[1], 16):04x}:{match[2].lower()}" if match else ""


def way(one: Place | None, other: Place | None) -> LinkKind:
    """How near two devices are, as `nvidia-smi topo -m` tells it."""
    if one is None or other is None:
        return LinkKind.UNKNOWN
    if one.path[0] != other.path[0]:
        if one.numa_node is None or other.numa_node is None:
            return LinkKind.UNKNOWN
        return LinkKind.NODE if one.numa_node == other.numa_node else LinkKind.SYS
    shared = _shared(one.path[:-1], other.path[:-1])
    if shared == 1:
        return LinkKind.PHB
    # A switch is one bridge above and one below for each of its devices.
    beyond = max(len(one.path), len(other.path)) - 1 - shared
    return LinkKind.PIX if beyond <= 1 else LinkKind.PXB


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _place(device: Path) -> Place | None:
    parts = device.resolve().parts
    bridges = [index for index, part in enumerate(parts) if _HOST_BRIDGE.fullmatch(part)]
    if not bridges or not device.exists():
        return None
    node = _read(device / "numa_node")
    return Place(parts[bridges[-1] :], int(node) if node.isdigit() else None)


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
