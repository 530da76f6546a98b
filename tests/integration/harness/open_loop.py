"""Requests at a steady pace, open loop: a late answer never slows the next request."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Self

import aiohttp


class OpenLoop(ABC):
    """A context manager; at its end every request has been answered.

    ``failures`` says what became of the requests that were not answered with 200.
    """

    def __init__(self, per_s: float) -> None:
        self._pause_s = 1 / per_s
        self._requests: set[asyncio.Task[None]] = set()
        self._pace: asyncio.Task[None] | None = None
        self.sent = 0
        self.failures: list[str] = []

    async def __aenter__(self) -> Self:
        self._pace = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._pace is not None
        self._pace.cancel()
        with suppress(asyncio.CancelledError):
            await self._pace
        await asyncio.gather(*self._requests)

    @abstractmethod
    async def _status(self) -> int:
        """The status of one request. OSError or ClientError: it has none."""

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            request = asyncio.create_task(self._request())
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            self.sent += 1
            due_s += self._pause_s
            await asyncio.sleep(due_s - loop.time())

    async def _request(self) -> None:
        try:
            status = await self._status()
        except (OSError, aiohttp.ClientError) as error:
            self.failures.append(repr(error))
        else:
            if status != 200:
                self.failures.append(str(status))
