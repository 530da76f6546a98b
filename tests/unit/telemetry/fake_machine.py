"""A machine's network devices and processes as files, in the forms of /proc and /sys."""

from __future__ import annotations

from pathlib import Path

from isocost.model import Signal
from isocost.telemetry.network import Network

HEADING = (
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast"
    "|bytes    packets errs drop fifo colls carrier compressed\n"
)


def net_dev(**interfaces: tuple[int, int] | str) -> str:
    """By name: bytes received and sent, or what stands after the colon."""
    lines = [
        f"{name:>6}: {numbers if isinstance(numbers, str) else numbers_text(*numbers)}\n"
        for name, numbers in interfaces.items()
    ]
    return HEADING + "".join(lines)


def numbers_text(received: int, sent: int) -> str:
    return f"{received} 7 0 0 0 0 0 0 {sent} 9 0 0 0 0 0 0"


class FakeMachine:
    """``network`` reads it; time passes by ``now_s``."""

    def __init__(self, root: Path) -> None:
        self.procfs = root / "proc"
        self.sysfs = root / "sys"
        (self.procfs / "net").mkdir(parents=True)
        (self.sysfs / "class/net").mkdir(parents=True)
        self.now_s = 1000.0
        self.network = Network(self.procfs, self.sysfs, lambda: self.now_s)
        self.write()

    def write(self, **interfaces: tuple[int, int] | str) -> None:
        (self.procfs / "net/dev").write_text(net_dev(**interfaces))

    def read(self, after_s: float = 0.2, **interfaces: tuple[int, int] | str) -> Signal:
        """A reading of these interfaces, that much later; the rate of all physical ones."""
        self.now_s += after_s
        self.write(**interfaces)
        self.network.read()
        return self.network.rate()

    def interface(self, name: str, card: str | None = None, kind: int = 1) -> Path:
        """Without a card it is a virtual one."""
        path = self.sysfs / "class/net" / name
        path.mkdir()
        (path / "type").write_text(f"{kind}\n")
        if card is not None:
            (path / "device").symlink_to(self._card(card))
        return path

    def infiniband(self, name: str, card: str, *ports: tuple[int | str, int | str]) -> Path:
        """``ports``: what their counters of words received and sent show."""
        path = self.sysfs / "class/infiniband" / name
        path.mkdir(parents=True)
        (path / "device").symlink_to(self._card(card))
        for number, counters in enumerate(ports, 1):
            (path / f"ports/{number}/counters").mkdir(parents=True)
            self.count(name, *counters, port=number)
        return path

    def count(self, name: str, received: int | str, sent: int | str, port: int = 1) -> None:
        counters = self.sysfs / f"class/infiniband/{name}/ports/{port}/counters"
        (counters / "port_rcv_data").write_text(f"{received}\n")
        (counters / "port_xmit_data").write_text(f"{sent}\n")

    def _card(self, name: str) -> Path:
        path = self.sysfs / "devices" / name
        path.mkdir(parents=True, exist_ok=True)
        return path
