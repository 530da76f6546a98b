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

    def loop() -> asyncio.AbstractEventLoop:
        made = asyncio.SelectorEventLoop(selector)
        monkeypatch.setattr(made, "time", lambda: selector.now_s)
        return made

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
