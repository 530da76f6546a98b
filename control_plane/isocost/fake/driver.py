"""Runs a node's engines in real time: one timer at their next event, none while they are idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from collections.abc import Sequence as Marks

from isocost.errors import IsocostError
from isocost.fake.engine import Engine
from isocost.fake.sequence import Progress, Prompt, Sequence
from isocost.fake.shared_cards import SharedCards


class EngineDiedError(IsocostError):
    """The engine was killed: what it held, it lost."""


class EngineDriver:
    """Must be made inside a running event loop.

    A late wake-up loses nothing: the engines catch up in their own time. ``observe`` sees all
    progress, also that of requests whose client reads slowly.
    """

    def __init__(self, cards: SharedCards, observe: Callable[[Engine, Progress], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._cards = cards
        self._observe = observe
        #: The news of every open request; None = the engine died.
        self._news: dict[Sequence, asyncio.Queue[Progress | None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._dead = False

    def hang(self, hanging: bool) -> None:
        """Stop every step, or go on where it stopped; requests are taken all the same."""
        self.catch_up()
        self._cards.hold(self._loop.time(), hanging)
        self._schedule()

    def slow(self, factor: float) -> None:
        """From now on everything that the engine does takes ``factor`` times as long."""
        self.catch_up()
        self._cards.slow(self._loop.time(), factor)
        self._schedule()

    def kill(self) -> None:
        """The end of this engine: every open and every later run() raises EngineDiedError."""
        self.catch_up()
        self._dead = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for news in self._news.values():
            news.put_nowait(None)

    async def run(
        self, engine: Engine, prompt: Prompt, marks: Marks[int], delay_s: float
    ) -> AsyncGenerator[Progress, None]:
        """Yield the progress of one request to an engine, to its last mark; closing it early
        aborts it.

        EngineDiedError: the engine was killed. ValueError: the request can never fit its KV pool.
        """
        if self._dead:
            raise EngineDiedError("the engine is dead")
        self.catch_up()
        sequence = engine.submit(self._loop.time(), prompt, marks, delay_s)
        news: asyncio.Queue[Progress | None] = asyncio.Queue()
        self._news[sequence] = news
        self._schedule()
        try:
            while True:
                progress = await news.get()
                if progress is None:
                    raise EngineDiedError("the engine died")
                yield progress
                if progress.finished:
                    return
        finally:
            self.catch_up()
            del self._news[sequence]
            engine.abort(sequence)
            self._schedule()

    def catch_up(self) -> None:
        """Bring the engines to the present, so that its numbers can be read."""
        if self._dead:
            return
        for engine, progress in self._cards.advance(self._loop.time()):
            self._observe(engine, progress)
            news = self._news.get(progress.sequence)
            if news is not None:
                news.put_nowait(progress)

    def _wake(self) -> None:
        self._timer = None
        self.catch_up()
        self._schedule()

    def _schedule(self) -> None:
        wake_s = None if self._dead else self._cards.next_wake_s()
        if self._timer is not None:
            if self._timer.when() == wake_s:
                return
            self._timer.cancel()
        self._timer = None if wake_s is None else self._loop.call_at(wake_s, self._wake)
