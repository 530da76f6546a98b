"""Short requests at a steady pace, as a client that has no part in the test's events."""

from __future__ import annotations

from tests.integration.harness.connection import Connection
from tests.integration.harness.open_loop import OpenLoop


class SteadyLoad(OpenLoop):
    """Each request has a connection of its own, so that every worker gets some."""

    def __init__(self, url: str, per_s: float) -> None:
        super().__init__(per_s)
        self._url = url

    async def _status(self) -> int:
        async with await Connection(self._url).open() as connection:
            return await connection.ask()
