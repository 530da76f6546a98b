"""The engines of one node, an engine for each model, taking turns on the same cards."""

from __future__ import annotations

from collections.abc import Sequence

from isocost.fake.engine import Engine
from isocost.fake.sequence import Progress


class SharedCards:
    """One engine has the cards for itself. Several are processes of their own, as vLLM serves
    several models: CUDA gives each that has work equal slices of the cards' time, so that each
    step takes as many times as long as engines have work.

    Every method that takes the time wants the engines advanced to the present, but ``advance``.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = tuple(engines)

    def busy_s(self, now_s: float) -> float:
        """Seconds in which any engine was in a step."""
        return sum(engine.busy_s(now_s) for engine in self.engines)

    def mean_residence_s(self, now_s: float) -> float | None:
        """How long the running sequences have held KV, on average; None without any."""
        found = [
            (engine.running, residence_s)
            for engine in self.engines
            if (residence_s := engine.mean_residence_s(now_s)) is not None
        ]
        running = sum(count for count, _ in found)
        return sum(count * age_s for count, age_s in found) / running if running else None

    def slow(self, now_s: float, factor: float) -> None:
        for engine in self.engines:
            engine.slow(now_s, factor)

    def hold(self, now_s: float, holding: bool) -> None:
        for engine in self.engines:
            engine.hold(now_s, holding)

    def advance(self, now_s: float) -> list[tuple[Engine, Progress]]:
        """Run all until ``now_s``; what happened in which engine, in order."""
        happened: list[tuple[Engine, Progress]] = []
        if len(self.engines) > 1:
            # An engine begins or ends its work only where it has something to do.
            while (wake_s := self.next_wake_s()) is not None and wake_s <= now_s:
                for engine in self.engines:
                    happened += [(engine, progress) for progress in engine.advance(wake_s)]
                self._share(wake_s)
        for engine in self.engines:
            happened += [(engine, progress) for progress in engine.advance(now_s)]
        return happened

    def next_wake_s(self) -> float | None:
        """When ``advance`` will next have something to do; None = not before a submit."""
        wakes = (engine.next_wake_s() for engine in self.engines)
        return min((wake_s for wake_s in wakes if wake_s is not None), default=None)

    def _share(self, now_s: float) -> None:
        working = sum(engine.working for engine in self.engines)
        for engine in self.engines:
            engine.share(now_s, max(working, 1))
