"""Runs an engine in real time: one timer at its next event, nothing while it is idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from isocost.fake.engine import Engine, Progress


class EngineDriver:
    """Must be made inside a running event loop.

    A late wake-up loses nothing: the engine catches up in its own time. ``observe`` sees all
    progress, also that of requests whose client reads slowly.
    """

    def __init__(self, engine: Engine, observe: Callable[[Progress], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine = engine
        self._observe = observe
        self._news: dict[int, asyncio.Queue[Progress]] = {}
        self._timer: asyncio.TimerHandle | None = None
        #: The engine's clock stands still while it hangs, and is behind by that afterwards.
        self._hung_at_s: float | None = None
        self._behind_s = 0.0

    def now_s(self) -> float:
        """The engine's time."""
        now_s = self._loop.time() if self._hung_at_s is None else self._hung_at_s
        return now_s - self._behind_s

    def hang(self, hanging: bool) -> None:
        """Stop every step, or go on where it stopped; requests are taken all the same."""
        if hanging == (self._hung_at_s is not None):
            return
        self.catch_up()
        if self._hung_at_s is None:
            self._hung_at_s = self._loop.time()
        else:
            self._behind_s += self._loop.time() - self._hung_at_s
            self._hung_at_s = None
        self._schedule()

    async def run(
        self, prompt_tokens: int, marks: Sequence[int], delay_s: float
    ) -> AsyncGenerator[Progress, None]:
        """Yield the progress of one request to its last mark; closing it early aborts it."""
        self.catch_up()
        sequence = self._engine.submit(self.now_s(), prompt_tokens, marks, delay_s)
        news: asyncio.Queue[Progress] = asyncio.Queue()
        self._news[sequence.number] = news
        self._schedule()
        try:
            while True:
                progress = await news.get()
                yield progress
                if progress.finished:
                    return
        finally:
            self.catch_up()
            del self._news[sequence.number]
            self._engine.abort(sequence)
            self._schedule()

    def catch_up(self) -> None:
        """Bring the engine to the present, so that its numbers can be read."""
        for progress in self._engine.advance(self.now_s()):
            self._observe(progress)
            news = self._news.get(progress.sequence.number)
            if news is not None:
                news.put_nowait(progress)

    def _wake(self) -> None:
        self._timer = None
        self.catch_up()
        self._schedule()

    def _schedule(self) -> None:
        wake_s = None if self._hung_at_s is not None else self._engine.next_wake_s()
        if wake_s is not None:
            wake_s += self._behind_s
        if self._timer is not None:
            if self._timer.when() == wake_s:
                return
            self._timer.cancel()
        self._timer = None if wake_s is None else self._loop.call_at(wake_s, self._wake)
