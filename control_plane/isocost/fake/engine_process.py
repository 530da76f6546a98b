"""The engines of a fake node with all that a restart takes with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from isocost.fake.driver import EngineDriver
from isocost.fake.engine import Engine
from isocost.fake.metrics import NodeMetrics
from isocost.fake.sequence import Progress, Prompt
from isocost.fake.settings import FakeNodeSettings
from isocost.fake.shared_cards import SharedCards
from isocost.fake.telemetry import FakeTelemetry
from isocost.fake.traffic import Traffic


class EngineProcess:
    """A started engine for each model: cold caches, counters at 0, no orders to the telemetry. Must
    be made inside a running event loop. ``traffic`` and the clock ``wall`` are the node's.
    """

    def __init__(
        self, settings: FakeNodeSettings, traffic: Traffic, wall: Callable[[], float]
    ) -> None:
        clock = asyncio.get_running_loop().time
        #: By the names of their models.
        self.engines = {
            name: Engine(hardware.speed, hardware.kv_blocks, settings.max_num_seqs)
            for name, hardware in settings.served.items()
        }
        cards = SharedCards(tuple(self.engines.values()))
        self.telemetry = FakeTelemetry(settings, cards, traffic, clock, wall)
        self.metrics = NodeMetrics(
            settings.metrics, self.engines, self.telemetry.engine_reading, clock
        )
        self.driver = EngineDriver(cards, self.metrics.observe)

    def run(
        self, model: str, prompt: Prompt, marks: Sequence[int], delay_s: float
    ) -> AsyncGenerator[Progress, None]:
        """See EngineDriver.run."""
        return self.driver.run(self.engines[model], prompt, marks, delay_s)

    def metrics_page(self) -> bytes:
        self.driver.catch_up()
        return self.metrics.page()

    def telemetry_page(self) -> bytes:
        self.driver.catch_up()
        return self.telemetry.page()
