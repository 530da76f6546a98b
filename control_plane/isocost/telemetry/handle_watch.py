"""Watches the CUDA handles of one node's engine beside the ticks, and calls the restart hook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from isocost.schedule import ticks
from isocost.telemetry.cuda_handles import CudaHandles, HandleReading
from isocost.telemetry.restart_hook import RestartHook

INTERVAL_S = 1.0


class HandleWatch:
    """``reading`` is the last one; ``pids`` tells the engine's processes of now."""

    def __init__(self, pids: Callable[[], Iterable[int]], procfs: Path) -> None:
        self._pids = pids
        self._handles = CudaHandles(procfs)
        self.reading = HandleReading()

    async def read(self) -> None:
        """One reading, in a thread: a process may have many files open."""
        self.reading = await asyncio.to_thread(self._handles.read, list(self._pids()))

    async def run(self, node: str, command: Sequence[str], instance: Callable[[], str]) -> None:
        """Read until cancelled; ``command`` is run when handles dropped, if there is one."""
        hook = RestartHook(node, command)
        async with asyncio.TaskGroup() as group:
            group.create_task(hook.run())
            async for _ in ticks(INTERVAL_S):
                await self.read()
                if command:
                    hook.note(instance(), self.reading.drops)
