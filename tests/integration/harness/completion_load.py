"""Completions of fake nodes at a steady pace."""

from __future__ import annotations

from tests.integration.harness.fleet import MODEL, Fleet
from tests.integration.harness.open_loop import OpenLoop


class CompletionLoad(OpenLoop):
    """Each request asks for ``max_tokens``, in one piece unless it is a ``stream``."""

    def __init__(self, fleet: Fleet, per_s: float, max_tokens: int, stream: bool = False) -> None:
        super().__init__(per_s)
        self._fleet = fleet
        self._body = {
            "model": MODEL,
            "prompt": "hello",
            "max_tokens": max_tokens,
            "stream": stream,
        }

    async def _status(self) -> int:
        url = f"{self._fleet.envoy.url}/v1/completions"
        async with self._fleet.session.post(url, json=self._body) as response:
            await response.read()
            return response.status
