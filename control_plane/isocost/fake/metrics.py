"""The metrics page of a fake engine, under the names of the engine that it pretends to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from isocost.fake.engine import Engine
from isocost.fake.exposition import Reading
from isocost.fake.metrics_sglang import SglangMetrics
from isocost.fake.metrics_vllm import VllmMetrics
from isocost.fake.sequence import Progress


class EngineMetrics(Protocol):
    """What a page of every kind must do: it counts what the engine itself does not."""

    def observe(self, progress: Progress) -> None:
        """Sees all progress of all requests, in order."""

    def page(self) -> bytes:
        """The page now; the engine has been advanced to the present."""


def engine_metrics(
    kind: str, engine: Engine, model: str, reading: Reading, clock: Callable[[], float]
) -> EngineMetrics:
    """``kind`` is one of settings.METRICS; ``reading``: see FakeTelemetry.engine_reading."""
    if kind == "sglang":
        return SglangMetrics(engine, model, reading, clock)
    return VllmMetrics(engine, model, reading)
