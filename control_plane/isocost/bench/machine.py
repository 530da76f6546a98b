"""How busy the machine was: figures from a saturated machine say little about the product."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Above this the generator and the measured processes take CPU from each other.
BUSY_LIMIT = 0.85
_STAT = Path("/proc/stat")
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")


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


@dataclass(frozen=True, slots=True)
class QuotaTimes:
    """A control group that may use ``cpus`` at most, and the CPU seconds that it has used; None =
    the kernel does not say."""

    cpus: float
    used_s: float | None


def quota_times(groups: Path = _GROUPS, own: Path = _OWN_GROUP) -> Mapping[str, QuotaTimes]:
    """Every limited control group (version 2) that this process is in, by its path: its own, and
    those around it."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    # "0::/a/b": version 2 has the number 0. In a container the path begins at its own group.
    path = next((line[3:] for line in lines if line.startswith("0::")), "/").strip("/")
    found = {}
    for folder in (groups / path, *(groups / path).parents):
        if folder == groups.parent:
            break
        try:
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            # The outermost group has none.
            continue
        if quota != "max":
            found[str(folder)] = QuotaTimes(int(quota) / int(period), _used_s(folder / "cpu.stat"))
    return found


def _used_s(stat: Path) -> float | None:
    try:
        words = stat.read_text(encoding="ascii").split()
    except OSError:
        return None
    fields = dict(zip(words[::2], words[1::2], strict=False))
    return int(fields["usage_usec"]) / 1e6 if "usage_usec" in fields else None


def worst_fraction(
    machine: float | None,
    before: Mapping[str, QuotaTimes],
    after: Mapping[str, QuotaTimes],
    elapsed_s: float,
) -> float | None:
    """The busy part of the machine or of one of the quotas, whichever is more.

    None where any is not known: what limits this process may have been used up.
    """
    if machine is None or elapsed_s <= 0:
        return None
    worst = machine
    for path, quota in after.items():
        earlier = before.get(path)
        if earlier is None or earlier.used_s is None or quota.used_s is None:
            return None
        worst = max(worst, (quota.used_s - earlier.used_s) / (quota.cpus * elapsed_s))
    return worst


def process_cpu_s(pid: int) -> float | None:
    """CPU seconds, user and system, that a process and its threads used; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and parentheses: fields count from the last one.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
