"""The metrics page of a fake node, under the names of the engines that it pretends to have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from isocost.fake.engine import Engine
from isocost.fake.exposition import Reading, merged
from isocost.fake.metrics_sglang import SglangMetrics
from isocost.fake.metrics_vllm import VllmMetrics
from isocost.fake.sequence import Progress


class EngineMetrics(Protocol):
    """What a page of every kind must do: it counts what the engine itself does not."""

    def observe(self, progress: Progress) -> None:
        """Sees all progress of all requests, in order."""

    def lines(self) -> Iterable[str]:
        """The page now; the engine has been advanced to the present."""


class NodeMetrics:
    """The page of all engines of a node: as each would tell it, with the model's name and, as vLLM
    has it, the engine's number. ``engines`` by model; ``reading``: see FakeTelemetry.
    """

    def __init__(
        self,
        kind: str,
        engines: Mapping[str, Engine],
        reading: Callable[[Engine, str], float | None],
        clock: Callable[[], float],
    ) -> None:
        """``kind`` is one of settings.METRICS."""
        self._metrics = [
            _engine_metrics(kind, engine, number, model, partial(reading, engine), clock)
            for number, (model, engine) in enumerate(engines.items())
        ]
        self._of = dict(zip(engines.values(), self._metrics, strict=True))

    def observe(self, engine: Engine, progress: Progress) -> None:
        """Sees all progress of all requests, in order."""
        self._of[engine].observe(progress)

    def page(self) -> bytes:
        """The page now; the engines have been advanced to the present."""
        return ("\n".join(merged(metrics.lines() for metrics in self._metrics)) + "\n").encode()


def _engine_metrics(
    kind: str,
    engine: Engine,
    number: int,
    model: str,
    reading: Reading,
    clock: Callable[[], float],
) -> EngineMetrics:
    if kind == "sglang":
        return SglangMetrics(engine, model, reading, clock)
    return VllmMetrics(engine, number, model, reading)
