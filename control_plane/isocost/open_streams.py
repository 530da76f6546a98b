"""The streams that clients hold open: a server that stops ends each of them itself, with a status.

gRPC would cancel their handlers, and logs a traceback for some of those, by chance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import grpc
import grpc.aio

#: What clients are told, which come again then.
STOPPING = "the control plane stops"

Result = TypeVar("Result")


class OpenStreams:
    """What reads the requests of each open stream of one server."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Task[Any]] = set()
        self._stopping = False

    def reader(self, reading: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """The task of what reads one stream's requests: cancelled when the server stops."""
        task = asyncio.create_task(reading)
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)
        if self._stopping:
            task.cancel()
        return task

    async def read(
        self, reading: Coroutine[Any, Any, Result], context: grpc.aio.ServicerContext
    ) -> Result:
        """What the reading of a stream comes to; UNAVAILABLE is sent if the server stops."""
        task = self.reader(reading)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return await self.result(task, context)

    async def result(self, task: asyncio.Task[Result], context: grpc.aio.ServicerContext) -> Result:
        """What a reader that has ended came to; UNAVAILABLE is sent if the server stops."""
        if task.cancelled() and self._stopping:
            await context.abort(grpc.StatusCode.UNAVAILABLE, STOPPING)
        return task.result()

    def end(self) -> None:
        """End all streams, those that only begin as well."""
        self._stopping = True
        for task in self._readers:
            task.cancel()
