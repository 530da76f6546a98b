"""The engine of a fake node with all that a restart takes with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from isocost.fake.driver import EngineDriver
from isocost.fake.engine import Engine
from isocost.fake.metrics import engine_metrics
from isocost.fake.settings import FakeNodeSettings
from isocost.fake.telemetry import FakeTelemetry
from isocost.fake.traffic import Traffic


class EngineProcess:
    """A started engine: cold cache, counters at 0, no orders to the telemetry. Must be made inside
    a running event loop. ``traffic`` and the clock ``wall`` are the node's.
    """

    def __init__(
        self, settings: FakeNodeSettings, traffic: Traffic, wall: Callable[[], float]
    ) -> None:
        hardware = settings.hardware
        clock = asyncio.get_running_loop().time
        engine = Engine(hardware.speed, hardware.kv_blocks, settings.max_num_seqs)
        self.telemetry = FakeTelemetry(settings, engine, traffic, clock, wall)
        self.metrics = engine_metrics(
            settings.metrics,
            engine,
            settings.served_model_name,
            self.telemetry.engine_reading,
            clock,
        )
        self.driver = EngineDriver(engine, self.metrics.observe)

    def metrics_page(self) -> bytes:
        self.driver.catch_up()
        return self.metrics.page()

    def telemetry_page(self) -> bytes:
        self.driver.catch_up()
        return self.telemetry.page()
