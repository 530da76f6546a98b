"""How busy the machine was: figures from a saturated machine say little about the product."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: Above this the generator and the measured processes take CPU from each other.
BUSY_LIMIT = 0.85
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Clock ticks of all CPUs together since boot."""

    busy: int
    total: int


def cpu_times(stat: Path = _STAT) -> CpuTimes | None:
    """Read the machine's CPU times; None where the kernel does not say."""
    try:
        first_line = stat.read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    # user nice system idle iowait irq softirq steal; guest time is in user and nice already.
    fields = [int(field) for field in first_line.split()[1:9]]
    if len(fields) < 5:
        return None
    total = sum(fields)
    return CpuTimes(busy=total - fields[3] - fields[4], total=total)


def busy_fraction(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Share of the time between two readings in which the CPUs were not idle."""
    if before is None or after is None or after.total <= before.total:
        return None
    return (after.busy - before.busy) / (after.total - before.total)


def process_cpu_s(pid: int) -> float | None:
    """CPU seconds, user and system, that a process and its threads used; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and parentheses: fields count from the last one.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
