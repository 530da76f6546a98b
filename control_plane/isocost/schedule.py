"""Ticks on a monotonic schedule: a late tick is dropped, never piled up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator


def next_tick_s(start_s: float, interval_s: float, now_s: float) -> float:
    """The first multiple of the interval after ``now_s``, counted from ``start_s``."""
    return start_s + (int((now_s - start_s) / interval_s) + 1) * interval_s


async def ticks(interval_s: float) -> AsyncIterator[float]:
    """Yield the monotonic time of each tick, the first at once."""
    start_s = time.monotonic()
    yield start_s
    while True:
        due_s = next_tick_s(start_s, interval_s, time.monotonic())
        await asyncio.sleep(due_s - time.monotonic())
        yield time.monotonic()
