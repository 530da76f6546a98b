"""A machine's network devices in sysfs, and which of them count so that no byte counts twice.

An interface is physical if it has a device. Bonds and bridges have none: their members count. A
member of an interface that has a device is left out: on Hyper-V that interface's bytes include
those of its virtual function (netvsc_get_stats64 in the kernel's netvsc_drv.c).

An InfiniBand port counts all that goes through it, so the IP interfaces on top of it are left out.
A RoCE port counts RDMA alone (mlx5's mad.c: the octets of ib_unicast and ib_multicast), and the
Ethernet interface of the same card all but RDMA (the kernel's mlx5 counters.rst): both count.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: ARPHRD_INFINIBAND: IP over InfiniBand.
_IPOIB = "32"
_PORT_COUNTERS = ("counters/port_rcv_data", "counters/port_xmit_data")


@dataclass(frozen=True, slots=True)
class Interface:
    """``above``: the InfiniBand devices that it is on top of, by name."""

    physical: bool = False
    above: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class InfiniBand:
    """An RDMA device: the counter files of all its ports, and the card that it is, as a path."""

    counters: tuple[Path, ...]
    card: str


class NetworkDevices:
    """What ``rescan`` found, and what interfaces were since then when first asked for."""

    def __init__(self, sysfs: Path) -> None:
        self._interfaces_path = sysfs / "class/net"
        self._infiniband_path = sysfs / "class/infiniband"
        self._interfaces: dict[str, Interface] = {}
        self.infiniband: dict[str, InfiniBand] = {}

    def rescan(self) -> None:
        """OSError: sysfs cannot be read; what was known before stays."""
        self._interfaces_path.stat()
        try:
            names = sorted(path.name for path in self._infiniband_path.iterdir())
        except FileNotFoundError:
            names = []
        self.infiniband = {name: self._read_infiniband(name) for name in names}
        self._interfaces = {}

    def interfaces(self, names: Iterable[str]) -> dict[str, Interface]:
        """Those that are there now. Of the others nothing is kept: a name that comes again can be
        another interface.
        """
        known = self._interfaces
        self._interfaces = {
            name: known[name] if name in known else self._read_interface(name) for name in names
        }
        return self._interfaces

    def _read_interface(self, name: str) -> Interface:
        path = self._interfaces_path / name
        if not _exists(path / "device"):
            return Interface()
        return Interface(
            physical=not _exists(path / "master" / "device"), above=self._infiniband_below(path)
        )

    def _infiniband_below(self, path: Path) -> frozenset[str]:
        try:
            if (path / "type").read_text().strip() != _IPOIB:
                return frozenset()
            card = os.path.realpath(path / "device")
        except (OSError, ValueError):
            return frozenset()
        return frozenset(name for name, device in self.infiniband.items() if device.card == card)

    def _read_infiniband(self, name: str) -> InfiniBand:
        path = self._infiniband_path / name
        ports: list[Path] = []
        # Without a card it is software, whose RDMA passes an interface.
        if _exists(path / "device"):
            with contextlib.suppress(OSError):
                ports = sorted((path / "ports").iterdir())
        return InfiniBand(
            tuple(port / file for port in ports for file in _PORT_COUNTERS),
            os.path.realpath(path / "device"),
        )


def _exists(path: Path) -> bool:
    """Also of a name that no file can have."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
