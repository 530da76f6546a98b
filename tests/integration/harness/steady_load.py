"""Short requests at a steady pace, as a client that has no part in the test's events."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.integration.harness.connection import Connection


class SteadyLoad:
    """A context manager. ``failures`` says what became of the requests that were not answered 200.

    Each request has a connection of its own, so that every worker gets some.
    """

    def __init__(self, url: str, per_s: float) -> None:
        self._url = url
        self._pause_s = 1 / per_s
        self._requests: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self.sent = 0
        self.failures: list[str] = []

    async def __aenter__(self) -> SteadyLoad:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await asyncio.gather(*self._requests)

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
            async with await Connection(self._url).open() as connection:
                status = await connection.ask()
        except OSError as error:
            self.failures.append(repr(error))
        else:
            if status != 200:
                self.failures.append(str(status))
