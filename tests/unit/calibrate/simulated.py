"""A fake engine under a calibration, both in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from isocost.calibrate.flight import Flight
from isocost.calibrate.plan import Plan
from isocost.calibrate.result import Calibration, Subject
from isocost.calibrate.run import calibrate_engine
from isocost.fake.driver import EngineDriver
from isocost.fake.engine import Engine
from isocost.fake.kv_cache import BLOCK_TOKENS
from isocost.fake.sequence import Prompt, coarse_marks
from isocost.fake.shared_cards import SharedCards
from isocost.fake.speeds import Speed
from isocost.model import EngineSample, measured

Result = TypeVar("Result")
KV_BLOCKS = 27_500
#: Of a chat template.
TEMPLATE_TOKENS = 4
SUBJECT = Subject("http://engine:8000", "llama-3.1-8b", "H100", 1, 131_072)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Where nothing is to be done it is the time of the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_s = 0.0

    def time(self) -> float:
        return self._virtual_s

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._virtual_s = max(self._virtual_s, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def in_virtual_time(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class SimulatedEngine:
    """Must be made inside a running event loop. ``pieces``: of an answer at most."""

    def __init__(self, speed: Speed, pieces: int = 1000) -> None:
        self._clock = asyncio.get_running_loop().time
        self._pieces = pieces
        self.engine = Engine(speed, KV_BLOCKS, max_num_seqs=128)
        self.driver = EngineDriver(SharedCards([self.engine]), lambda *_: None)

    def now_s(self) -> float:
        return self._clock()

    async def send(self, flight: Flight) -> None:
        flight.sent_s = self.now_s()
        tokens = flight.shape.input_tokens + TEMPLATE_TOKENS
        flight.sent_bytes = 4 * tokens
        marks = coarse_marks(flight.shape.output_tokens, self._pieces)
        async with aclosing(self.driver.run(self.engine, Prompt(tokens), marks, 0.0)) as news:
            async for progress in news:
                flight.pieces.append(self.arrived_s(progress.at_s))
                flight.received_bytes += 200
        flight.end_s = self.now_s()
        flight.input_tokens, flight.output_tokens = tokens, flight.shape.output_tokens

    def arrived_s(self, at_s: float) -> float:
        """When the client gets what left the engine at ``at_s``."""
        return at_s

    async def sample(self) -> EngineSample | None:
        self.driver.catch_up()
        return EngineSample(
            running=measured(float(self.engine.running)),
            waiting=measured(float(self.engine.waiting)),
            kv_usage=measured(self.engine.kv_usage),
            kv_pool_tokens=measured(float(self.engine.kv_blocks * BLOCK_TOKENS)),
            prompt_tokens_total=measured(float(self.engine.prompt_tokens_total)),
        )


async def calibrate_simulated(engine: SimulatedEngine, plan: Plan) -> Calibration:
    loads = plan.loads(KV_BLOCKS * BLOCK_TOKENS, None)
    return await calibrate_engine(engine, SUBJECT, plan, loads, lambda _: None)


def calibrated(speed: Speed, plan: Plan, pieces: int = 1000) -> Calibration:
    """What a calibration of such an engine finds."""

    async def work() -> Calibration:
        return await calibrate_simulated(SimulatedEngine(speed, pieces), plan)

    return in_virtual_time(work())
