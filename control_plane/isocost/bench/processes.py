"""Who used the machine during a run: the CPU time of each process between two readings."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from isocost.bench.machine import (
    CpuTimes,
    QuotaTimes,
    busy_fraction,
    cpu_times,
    quota_times,
    worst_fraction,
)
from isocost.bench.report import ProcessCpu

_PROC = Path("/proc")
_MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """CPU seconds, user and system, of a process and its threads since it started."""

    name: str
    cpu_s: float


#: By pid and start time: a pid is used again.
ProcessTable = Mapping[tuple[int, int], ProcessTimes]


def read_processes(proc: Path = _PROC) -> ProcessTable:
    """Every process of the machine that can be seen; empty where the kernel does not say."""
    table = {}
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    for folder in proc.glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            command = (folder / "cmdline").read_bytes()
        except OSError:
            # It has ended meanwhile.
            continue
        # The command name may hold spaces and parentheses: fields count from the last one.
        comm, _, rest = stat.partition("(")[2].rpartition(")")
        fields = rest.split()
        cpu_s = (int(fields[11]) + int(fields[12])) / ticks_per_s
        words = command.decode(errors="replace").split("\0")[:-1]
        table[int(folder.name), int(fields[19])] = ProcessTimes(short_name(words, comm), cpu_s)
    return table


def cpu_between(before: ProcessTable, after: ProcessTable, elapsed_s: float) -> list[ProcessCpu]:
    """Each process's use of one core in ``elapsed_s``, the busiest first.

    One that began meanwhile counts whole; what one that ended used is not known.
    """
    used = []
    for (pid, started), times in after.items():
        earlier = before.get((pid, started))
        cpu_s = times.cpu_s - (earlier.cpu_s if earlier else 0.0)
        if cpu_s > 0:
            used.append(ProcessCpu(pid, times.name, cpu_s / elapsed_s))
    return sorted(used, key=lambda process: (-process.cpu_fraction, process.pid))


def short_name(words: Sequence[str], comm: str) -> str:
    """A command line in a few words: the program, or what an interpreter runs, and its subcommand.

    Nothing from the first option on: options may hold secrets. ``comm`` is the kernel's name, for
    processes without a command line.
    """
    if not words or not words[0]:
        return f"[{comm}]"
    program, *arguments = words
    name = program.split()[0].rpartition("/")[2] if program.strip() else comm
    if name.startswith("python"):
        while arguments and arguments[0].startswith("-") and arguments[0] not in ("-m", "-c"):
            # These two have a value of their own.
            del arguments[: 2 if arguments[0] in ("-W", "-X") else 1]
        if arguments[:1] == ["-c"]:
            return f"{name} -c"
        if arguments[:1] == ["-m"]:
            arguments.pop(0)
        if arguments:
            name = arguments.pop(0).rpartition("/")[2]
    if arguments and arguments[0].replace("-", "").isalnum() and arguments[0][0] != "-":
        name += f" {arguments[0]}"
    return name[:_MAX_NAME]


@dataclass(frozen=True, slots=True)
class MachineReading:
    """The machine's and its processes' CPU times at one moment."""

    at_s: float
    times: CpuTimes | None
    processes: ProcessTable
    quotas: Mapping[str, QuotaTimes] = field(default_factory=dict)

    @classmethod
    def take(cls) -> MachineReading:
        return cls(time.monotonic(), cpu_times(), read_processes(), quota_times())

    def busy_until(self, later: MachineReading) -> float | None:
        """Busy part of the machine between both, or of this process's CPU quota where that is
        more; None = not known."""
        return worst_fraction(
            busy_fraction(self.times, later.times),
            self.quotas,
            later.quotas,
            later.at_s - self.at_s,
        )

    def processes_until(self, later: MachineReading) -> tuple[ProcessCpu, ...]:
        """Each process's part of one core between both, the busiest first."""
        elapsed_s = later.at_s - self.at_s
        if elapsed_s <= 0:
            return ()
        return tuple(cpu_between(self.processes, later.processes, elapsed_s))
