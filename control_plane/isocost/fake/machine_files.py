"""The files of one fake node in its fake machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import zlib
from pathlib import Path

from isocost.fake.machine import nvml_folder, procfs, sysfs

#: What an engine's process holds open of the driver.
_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")
_HANDLES = 24
#: Behind standard input, output and error.
_FIRST_HANDLE = 3
#: What an engine takes of the host's memory.
_MEMORY_BYTES = 2**32
#: Linux has process ids up to 2^22.
_PIDS = range(100_000, 2**22)
#: What Linux's InfiniBand drivers say of a port whose counters cannot be read.
NO_COUNTERS = "N/A (no PMA)"
#: 64 bits.
_COUNTER_WIDTH = 20
_NET_DEV = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo \
colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0 \
    0       0          0
"""


class MachineFiles:
    """Written only if they changed. OSError: they cannot be."""

    def __init__(self, machine: Path, node: str) -> None:
        self._machine = machine
        self._gpus = nvml_folder(machine) / node
        self._interfaces = sysfs(machine) / "class" / "net"
        self._device = sysfs(machine) / "class" / "infiniband" / node
        self._counters = self._device / "ports" / "1" / "counters"
        self._processes = procfs(machine)
        self._process: Path | None = None
        self._written = ""
        #: What each counter says, in an open file.
        self._open: dict[str, tuple[int, str]] = {}
        #: Nodes begin far apart, and an engine that starts anew goes on from there.
        self._place = zlib.crc32(node.encode())

    def gpus(self, text: str) -> None:
        """The state of the node's GPUs."""
        if text != self._written:
            _replace(self._gpus, text)
            self._written = text

    def network(self, sent: str | None, received: str | None) -> None:
        """What its port's counters say; None: there is no such counter."""
        for name, text in (("port_xmit_data", sent), ("port_rcv_data", received)):
            if text is None:
                self._close(name)
            else:
                self._set(name, text)

    def start_process(self) -> int:
        """An engine; its process id, which none of this node had and no other here has."""
        self._processes.mkdir(parents=True, exist_ok=True)
        net_dev = self._processes / "net" / "dev"
        if not net_dev.exists():
            _replace(net_dev, _NET_DEV)
        pid, folder = self._claim()
        self._process = folder
        handles = folder / "fd"
        handles.mkdir()
        for number in range(_HANDLES):
            device = _DEVICES[number % len(_DEVICES)]
            (handles / str(_FIRST_HANDLE + number)).symlink_to(device)
        (folder / "stat").write_text(_stat(pid))
        return pid

    def end_process(self) -> None:
        if self._process is not None:
            shutil.rmtree(self._process, ignore_errors=True)
            self._process = None

    def remove(self) -> None:
        """All that is the node's own."""
        self.end_process()
        # The whole machine may be gone.
        with contextlib.suppress(OSError):
            self._gpus.unlink()
        for name in list(self._open):
            self._close(name)
        shutil.rmtree(self._device, ignore_errors=True)

    def _claim(self) -> tuple[int, Path]:
        while True:
            pid = _PIDS[self._place % len(_PIDS)]
            self._place += 1
            folder = self._processes / str(pid)
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return pid, folder

    def _set(self, name: str, text: str) -> None:
        """In place, which is far cheaper than a rename; of one length, so that it is never half
        the number.
        """
        if name not in self._open:
            # A device without a card is none, and /sys without network classes is no /sys.
            for folder in (self._counters, self._device / "device", self._interfaces):
                folder.mkdir(parents=True, exist_ok=True)
            self._open[name] = (os.open(self._counters / name, os.O_CREAT | os.O_RDWR), "")
        number, before = self._open[name]
        if text != before:
            os.pwrite(number, f"{text:<{_COUNTER_WIDTH}}\n".encode(), 0)
            self._open[name] = (number, text)

    def _close(self, name: str) -> None:
        if name in self._open:
            os.close(self._open.pop(name)[0])
        (self._counters / name).unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    """In one step for who reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Readers of a folder pass over names that begin with a dot.
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _stat(pid: int) -> str:
    """As Linux writes it; what a fake process has not is 0."""
    started = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    parent, threads = 1, 1
    before = ["S", parent, pid, pid, 0, -1, *[0] * 9, 20, 0, threads, 0]
    fields = [*before, started, _MEMORY_BYTES, _MEMORY_BYTES // os.sysconf("SC_PAGE_SIZE")]
    fields += [0] * 28
    return f"{pid} (fake engine) {' '.join(map(str, fields))}\n"
