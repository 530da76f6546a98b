"""A replay with eyes on it: the control plane is sampled, and somebody looks twice a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from isocost.bench.observer import Observer
from isocost.bench.replay import Replay
from isocost.bench.result import RequestResult

_LOOK_S = 0.5


async def watched(
    replay: Replay, observer: Observer, look: Callable[[], None]
) -> tuple[RequestResult, ...]:
    """The replay's results. What ``look`` raises ends the replay."""
    task = asyncio.create_task(replay.run())
    sampling = asyncio.create_task(observer.sample_each_second(lambda: replay.now_s))
    try:
        while not task.done():
            look()
            await asyncio.wait({task}, timeout=_LOOK_S)
        return task.result()
    finally:
        task.cancel()
        sampling.cancel()
        await asyncio.wait({task, sampling})
