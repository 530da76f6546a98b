"""The metrics page of a fake engine, under the names of the engine that it pretends to be."""

from __future__ import annotations

from collections.abc import Callable

from isocost.fake.engine import Engine
from isocost.fake.metrics_page import EngineMetrics, Reading
from isocost.fake.metrics_sglang import SglangMetrics
from isocost.fake.metrics_vllm import VllmMetrics

KINDS = ("vllm", "sglang")


def engine_metrics(
    kind: str, engine: Engine, model: str, reading: Reading, clock: Callable[[], float]
) -> EngineMetrics:
    """``kind`` is one of KINDS; ``reading``: see FakeTelemetry.engine_reading."""
    if kind == "sglang":
        return SglangMetrics(engine, model, reading, clock)
    return VllmMetrics(engine, model, reading)
