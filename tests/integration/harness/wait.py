"""Waiting on a condition instead of for a time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

#: Long enough for a machine that is busy with something else; a test that passes never waits so.
DEADLINE_S = 15.0
_POLL_S = 0.02

Value = TypeVar("Value")


@overload
async def wait_until(
    condition: Callable[[], Awaitable[Value | None]], what: str, deadline_s: float = ...
) -> Value: ...
@overload
async def wait_until(
    condition: Callable[[], Value | None], what: str, deadline_s: float = ...
) -> Value: ...
async def wait_until(
    condition: Callable[[], Value | None] | Callable[[], Awaitable[Value | None]],
    what: str,
    deadline_s: float = DEADLINE_S,
) -> Value:
    """The condition's first true value; AssertionError with ``what`` when the deadline passes."""
    end_s = time.monotonic() + deadline_s
    while True:
        outcome = condition()
        value = await outcome if inspect.isawaitable(outcome) else outcome
        if value:
            return value
        if time.monotonic() > end_s:
            raise AssertionError(f"not within {deadline_s:g} s: {what}")
        await asyncio.sleep(_POLL_S)
