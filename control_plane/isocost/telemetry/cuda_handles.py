"""The CUDA handles of a node's engine processes: their open files on NVIDIA's devices."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, Signal, measured
from isocost.telemetry.handle_drop import HandleHistory, after_reading
from isocost.telemetry.process_stat import start_ticks

#: /dev/nvidia0, nvidiactl, nvidia-uvm, nvidia-caps/...
_DEVICES = "/dev/nvidia"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HandleDrop:
    """A process that lives, but with half or less of the most handles that it held."""

    pid: int
    left: int
    most: int

    def __str__(self) -> str:
        return f"process {self.pid} has {self.left} of {self.most} CUDA handles left"


@dataclass(frozen=True, slots=True)
class HandleReading:
    """``handles`` is the sum over the processes. Absent: there is none, or one could not be read;
    unsupported: one may not be read.
    """

    handles: Signal = ABSENT
    drops: tuple[HandleDrop, ...] = ()

    @property
    def dropped(self) -> bool:
        return bool(self.drops)


@dataclass(frozen=True, slots=True)
class _Process:
    started: int
    history: HandleHistory


class CudaHandles:
    """The processes of one node. One that was named once is watched until it ends: NVML does not
    list a process that has lost its handles.
    """

    def __init__(self, procfs: Path = Path("/proc")) -> None:
        self._procfs = procfs
        self._processes: dict[int, _Process] = {}
        self._told = False

    def read(self, pids: Iterable[int]) -> HandleReading:
        """To be called once a second, in a thread: 20,000 open files take 0.1 s."""
        handles: Signal = ABSENT
        total = 0
        failed = False
        processes: dict[int, _Process] = {}
        for pid in sorted({*pids, *self._processes}):
            known = self._processes.get(pid)
            try:
                started = start_ticks((self._procfs / str(pid) / "stat").read_bytes())
                if started is None:
                    continue
                if known is None or known.started != started:
                    known = _Process(started, HandleHistory())
                processes[pid] = known
                count = self._count(pid)
            except (FileNotFoundError, ProcessLookupError):
                # It has ended: no drop, and its successor is another process.
                processes.pop(pid, None)
            except (OSError, TelemetryError) as error:
                self._tell(pid, error)
                failed = True
                if isinstance(error, PermissionError):
                    handles = UNSUPPORTED
                if known is not None:
                    processes[pid] = known
            else:
                processes[pid] = _Process(started, after_reading(known.history, count))
                total += count
        self._processes = processes
        if processes and not failed:
            self._told = False
            handles = measured(total)
        return HandleReading(handles, tuple(self._drops()))

    def _count(self, pid: int) -> int:
        path = self._procfs / str(pid) / "fd"
        count = 0
        for name in os.listdir(path):  # noqa: PTH208  a Path of each costs as much as the reading
            try:
                count += os.readlink(f"{path}/{name}").startswith(_DEVICES)  # noqa: PTH115
            except FileNotFoundError:
                continue  # It was closed meanwhile.
        return count

    def _drops(self) -> Iterable[HandleDrop]:
        for pid, process in self._processes.items():
            if process.history.dropped:
                yield HandleDrop(pid, process.history.last or 0, process.history.most)

    def _tell(self, pid: int, error: Exception) -> None:
        if not self._told:
            log.warning("no CUDA handles: the open files of process %s: %s", pid, error)
        self._told = True
