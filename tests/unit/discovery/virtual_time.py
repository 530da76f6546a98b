"""An event loop whose time goes on as soon as nobody has anything left to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

import pytest


class _Jumping(selectors.DefaultSelector):
    """Does not wait: the time is later instead."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select()
        events = super().select(0)
        if not events:
            self.now_s += max(timeout, 0.0)
        return events


def run_virtually(
    monkeypatch: pytest.MonkeyPatch, main: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Run a coroutine from second 0 of a loop of its own; threads' work is done at once in it."""

    async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    selector = _Jumping()
    loop = asyncio.SelectorEventLoop(selector)
    monkeypatch.setattr(loop, "time", lambda: selector.now_s)
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
