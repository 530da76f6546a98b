"""Machines for the fake NVML by their NVLinks, and the kernel's tree of their PCIe devices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

#: Where NVSwitches are; nothing else is.
SWITCH = "00000000:C1:00.0"
#: The NVLinks of a DGX-1 with V100.
DGX1 = {
    **{(0, 1): 1, (0, 2): 1, (0, 3): 2, (1, 2): 2, (1, 3): 1, (2, 3): 2},
    **{(4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2},
    **{(0, 4): 2, (1, 5): 2, (2, 6): 1, (3, 7): 1},
}


def bus_id(index: int) -> str:
    """As NVML writes it."""
    return f"00000000:{0x10 + index:02X}:00.0"


def linked(count: int, nvlinks: Mapping[tuple[int, int], int]) -> dict[str, object]:
    """GPUs g0, g1, ... with so many direct NVLinks between these pairs."""
    remotes: list[list[str]] = [[] for _ in range(count)]
    for (one, other), number in nvlinks.items():
        remotes[one] += [bus_id(other)] * number
        remotes[other] += [bus_id(one)] * number
    return _state(remotes, "gpu")


def switched(count: int, nvlinks: int) -> dict[str, object]:
    """GPUs with so many NVLinks each, all to switches."""
    return _state([[SWITCH] * nvlinks] * count, "switch")


def _state(remotes: list[list[str]], remote_type: str) -> dict[str, object]:
    state: dict[str, object] = {"gpus": ",".join(f"g{index}" for index in range(len(remotes)))}
    for index, ends in enumerate(remotes):
        state |= {f"g{index}.pci": bus_id(index), f"g{index}.nvlinks": len(ends)}
        for link, end in enumerate(ends):
            state[f"g{index}.nvlink.{link}.remote"] = end
            state[f"g{index}.nvlink.{link}.remote_type"] = remote_type
    return state


class PciTree:
    """A tree like /sys. A device is told by the bus ids of the bridges above it, and its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._listed = root / "bus" / "pci" / "devices"
        self._listed.mkdir(parents=True)
        self._nics = root / "class" / "infiniband"
        self._nics.mkdir(parents=True)

    def add(self, path: str, **files: object) -> Path:
        """``path`` is pci0000:10/0000:10:01.0/0000:11:00.0; ``files`` are what is in its folder."""
        folder = self.root / "devices" / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(f"{content}\n")
        (self._listed / folder.name).symlink_to(folder)
        return folder

    def add_nic(self, name: str, path: str, **files: object) -> None:
        folder = self.add(path, **files)
        self.name_nic(name, folder)

    def name_nic(self, name: str, folder: Path) -> None:
        (self._nics / name).mkdir()
        (self._nics / name / "device").symlink_to(folder)
