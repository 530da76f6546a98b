"""The engine in real time: on the event loop's clock, with the orders of a node's faults."""

from __future__ import annotations

import asyncio

import pytest

from isocost.fake.driver import EngineDiedError, EngineDriver
from isocost.fake.engine import Engine
from isocost.fake.sequence import Progress, Prompt, coarse_marks
from isocost.fake.shared_cards import SharedCards
from isocost.fake.speeds import Speed

DEADLINE_S = 10.0
#: 1 ms a step.
FAST = Speed(0.0, 1e-3, 0.0, 0.0, 0.0, 0.0, 0.0)


class Bench:
    """A driver, its engine, and what was observed. Made inside a running loop."""

    def __init__(self, max_num_seqs: int = 8) -> None:
        self.engine = Engine(FAST, 4096, max_num_seqs)
        self.observed: list[Progress] = []
        self.driver = EngineDriver(SharedCards([self.engine]), self._observe)
        self._begun = asyncio.Event()

    def _observe(self, _: Engine, progress: Progress) -> None:
        self.observed.append(progress)
        self._begun.set()

    async def begun(self) -> None:
        """Until the first token of all."""
        async with asyncio.timeout(DEADLINE_S):
            await self._begun.wait()

    async def ask(self, output: int, chunks: int = 8, prompt: int = 32) -> list[Progress]:
        run = self.driver.run(self.engine, Prompt(prompt), coarse_marks(output, chunks), 0.0)
        async with asyncio.timeout(DEADLINE_S):
            return [progress async for progress in run]


async def test_requests_get_their_own_progress_and_the_observer_all_of_it() -> None:
    bench = Bench()
    first, second = await asyncio.gather(bench.ask(20), bench.ask(8))
    assert [p.tokens for p in first] == list(coarse_marks(20, 8))
    assert [p.tokens for p in second] == list(range(1, 9))
    assert sorted(p.at_s for p in first + second) == [p.at_s for p in bench.observed]


async def test_the_engine_runs_on_the_clock_of_the_loop() -> None:
    bench = Bench()
    begin_s = asyncio.get_running_loop().time()
    happened = await bench.ask(50)
    assert asyncio.get_running_loop().time() - begin_s >= 0.05
    assert happened[-1].at_s - happened[0].at_s == pytest.approx(0.049)


async def test_an_idle_driver_has_no_timer() -> None:
    bench = Bench()
    await bench.ask(2)
    assert bench.driver._timer is None


async def test_a_client_that_goes_away_frees_its_place() -> None:
    bench = Bench(max_num_seqs=1)
    long = asyncio.create_task(bench.ask(50_000))
    await bench.begun()
    long.cancel()
    assert len(await bench.ask(1)) == 1
    assert long.cancelled() and bench.engine.kv_used_blocks == 0


async def test_a_hanging_engine_gives_nothing_and_then_goes_on() -> None:
    bench = Bench()
    bench.driver.hang(True)
    asked = asyncio.create_task(bench.ask(4))
    done, _ = await asyncio.wait([asked], timeout=0.1)
    assert not done and bench.observed == []
    begin_s = asyncio.get_running_loop().time()
    bench.driver.hang(False)
    happened = await asked
    assert happened[0].at_s >= begin_s


async def test_slow_takes_as_many_times_as_long_from_now_on() -> None:
    bench = Bench()
    bench.driver.slow(5.0)
    happened = await bench.ask(20, chunks=2)
    assert happened[-1].gap_s == pytest.approx(5e-3)
    bench.driver.slow(1.0)
    happened = await bench.ask(20, chunks=2)
    assert happened[-1].gap_s == pytest.approx(1e-3)


async def test_a_killed_engine_ends_every_request_and_takes_none() -> None:
    bench = Bench(max_num_seqs=1)
    asked = [asyncio.create_task(bench.ask(50_000, prompt=prompt)) for prompt in (32, 64)]
    await bench.begun()
    bench.driver.kill()
    for task in asked:
        with pytest.raises(EngineDiedError):
            await task
    with pytest.raises(EngineDiedError):
        await bench.ask(1)
    assert bench.driver._timer is None
    observed = len(bench.observed)
    bench.driver.catch_up()
    bench.driver.slow(2.0)
    bench.driver.hang(True)
    assert len(bench.observed) == observed


async def test_a_request_that_never_fits_is_refused_at_once() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="exceed the KV pool"):
        await bench.ask(10, prompt=70_000)
