"""How much memory a process holds, and whether that stays."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

_PACE_S = 0.25


def rss_kb(pid: int) -> int:
    """The process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError(f"process {pid} has ended")


async def rss_growth(processes: Mapping[str, int], duration_s: float) -> dict[str, float]:
    """By name, how much each process (given by its id) grew over that time, as a share.

    Medians of the first and the last sixth of the time: a moment's buffers do not count.
    """
    samples: dict[str, list[int]] = {name: [] for name in processes}
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        for name, pid in processes.items():
            samples[name].append(rss_kb(pid))
        await asyncio.sleep(_PACE_S)
    return {name: _growth(values) for name, values in samples.items()}


def _growth(samples: list[int]) -> float:
    part = max(1, len(samples) // 6)
    return statistics.median(samples[-part:]) / statistics.median(samples[:part]) - 1
