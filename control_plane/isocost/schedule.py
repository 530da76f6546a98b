"""Ticks on a monotonic schedule: a late tick is dropped, never piled up.

Every process starts its schedule at a multiple of the interval on the wall clock. With clocks that
agree, agents then report just before the control plane ticks, and a change waits for one interval
instead of two. Clocks that disagree cost that gain and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable

#: Agents sample this long before the control plane's tick: time to read the engines' pages and to
#: deliver. The spread keeps a thousand reports from arriving in the same millisecond.
REPORT_LEAD_S = 0.06
REPORT_SPREAD_S = 0.04


def report_lead_s(agent: str) -> float:
    """How long before the control plane's tick the agent of this name samples."""
    digest = hashlib.blake2b(agent.encode(), digest_size=4).digest()
    return REPORT_LEAD_S + REPORT_SPREAD_S * int.from_bytes(digest, "little") / 2**32


def first_tick_in_s(interval_s: float, lead_s: float, unix_s: float) -> float:
    """Time from ``unix_s`` to ``lead_s`` before a multiple of the interval on the wall clock."""
    return (-unix_s - lead_s) % interval_s


def next_tick_s(start_s: float, interval_s: float, now_s: float) -> float:
    """The first multiple of the interval after ``now_s``, counted from ``start_s``."""
    return start_s + (int((now_s - start_s) / interval_s) + 1) * interval_s


async def ticks_of(interval_s: Callable[[], float], lead_s: float = 0.0) -> AsyncIterator[float]:
    """The ticks of an interval that may change: another one begins after the next tick."""
    while True:
        now = interval_s()
        async with contextlib.aclosing(ticks(now, lead_s)) as schedule:
            async for tick_s in schedule:
                yield tick_s
                if interval_s() != now:
                    break


async def ticks(interval_s: float, lead_s: float = 0.0) -> AsyncGenerator[float, None]:
    """Yield the monotonic time of each tick, ``lead_s`` before the wall clock's multiples."""
    start_s = time.monotonic() + first_tick_in_s(interval_s, lead_s, time.time())
    due_s = start_s
    while True:
        await asyncio.sleep(due_s - time.monotonic())
        yield time.monotonic()
        due_s = next_tick_s(start_s, interval_s, time.monotonic())
