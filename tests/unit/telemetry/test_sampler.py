"""Sampling one node: what is fresh, what is stale, who it is, and that failures stay small."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from isocost.model import ABSENT, NodeSample, Signal, SignalState, measured
from isocost.telemetry import scrape
from isocost.telemetry.page_client import MAX_BYTES
from isocost.telemetry.sampler import ABSENT_S, FRESH_S, NodeSampler, sample_all
from isocost.telemetry.scrape import GONE_FAILURES
from tests.unit.telemetry.page_server import PageServer, metrics, page_server

PATIENCE_S = 5.0


class Bench:
    """One sampler on clocks that the test turns."""

    def __init__(self, server: PageServer, sampler: NodeSampler) -> None:
        self.server = server
        self.sampler = sampler
        self.now_s = 100.0
        self.wall_s = 5000.0

    async def sample(self, wait_s: float = PATIENCE_S) -> NodeSample | None:
        samples = await sample_all([self.sampler], wait_s)
        return samples[0] if samples else None

    async def known(self, wait_s: float = PATIENCE_S) -> NodeSample:
        sample = await self.sample(wait_s)
        assert sample is not None
        return sample


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with page_server() as server, scrape.Pages() as pages:
        benches: list[Bench] = []
        sampler = NodeSampler(
            server.settings,
            pages,
            clock=lambda: benches[0].now_s,
            wall=lambda: benches[0].wall_s,
        )
        benches.append(Bench(server, sampler))
        yield benches[0]


async def test_a_good_sample_is_measured_and_complete(bench: Bench) -> None:
    sample = await bench.known()
    assert sample.engine_up
    assert sample.node.instance_id == "n1@1000"
    assert sample.engine.running == Signal(SignalState.MEASURED, 1.0, 0.0)
    assert sample.engine.waiting == ABSENT
    assert sample.gpus[0].vram_free_bytes == Signal(SignalState.MEASURED, 7 * 2**20, 0.0)


async def test_a_node_is_unknown_until_its_engine_was_up_once(bench: Bench) -> None:
    bench.server.status = 503
    assert await bench.sample() is None
    bench.server.status = 200
    assert (await bench.known()).engine_up


async def test_a_failed_scrape_makes_values_stale_with_their_age_then_absent(
    bench: Bench,
) -> None:
    await bench.known()
    bench.server.status = 500
    bench.now_s += 0.2
    sample = await bench.known()
    assert sample.engine.running.state == SignalState.STALE
    assert sample.engine.running.value == 1.0
    assert sample.engine.running.age_s == pytest.approx(0.2)
    assert sample.gpus[0].vram_free_bytes.state == SignalState.STALE
    bench.now_s += ABSENT_S
    sample = await bench.known()
    assert sample.engine.running == ABSENT
    assert sample.gpus[0].vram_free_bytes == ABSENT
    assert sample.node.instance_id == "n1@1000"


@pytest.mark.parametrize("page", ["<html>", metrics() + "#" * MAX_BYTES])
async def test_a_page_that_is_none_or_too_large_is_a_failed_scrape(bench: Bench, page: str) -> None:
    await bench.known()
    bench.server.metrics = page
    sample = await bench.known()
    assert sample.engine.running.state == SignalState.STALE
    assert sample.gpus[0].vram_free_bytes.state == SignalState.MEASURED


async def test_a_slow_page_holds_up_nobody_and_is_not_asked_again_meanwhile(
    bench: Bench,
) -> None:
    await bench.known()
    bench.server.go_on.clear()
    bench.now_s += 0.2
    for _ in range(3):
        sample = await bench.known(wait_s=0.0)
    assert sample.engine_up
    assert sample.engine.running.state == SignalState.MEASURED
    assert sample.engine.running.age_s == pytest.approx(0.2)
    bench.now_s += FRESH_S
    sample = await bench.known(wait_s=0.05)
    assert sample.engine.running.state == SignalState.STALE
    assert bench.server.asked == 2
    bench.server.go_on.set()
    sample = await bench.known()
    assert sample.engine.running.state == SignalState.MEASURED
    assert bench.server.asked == 2


async def test_a_page_that_never_comes_times_out() -> None:
    async with page_server() as server, scrape.Pages(timeout_s=0.1) as pages:
        sampler = NodeSampler(server.settings, pages)
        assert await sample_all([sampler], PATIENCE_S)
        server.go_on.clear()
        (sample,) = await sample_all([sampler], PATIENCE_S)
        assert sample.engine.running.state == SignalState.STALE
        assert await ups(sampler) == [True, True, True, False, False]
        assert await silent(sampler)
        server.go_on.set()
        assert await ups(sampler, 1) == [True]
        assert not await silent(sampler)


async def silent(sampler: NodeSampler) -> bool:
    """Does its page fail though nobody refuses?"""
    return (await sample_all([sampler], PATIENCE_S))[0].engine_silent


async def ups(sampler: NodeSampler, samples: int = 5) -> list[bool]:
    return [(await sample_all([sampler], PATIENCE_S))[0].engine_up for _ in range(samples)]


async def test_an_engine_is_down_only_after_failures_in_a_row_and_up_with_the_first_answer(
    bench: Bench,
) -> None:
    await bench.known()
    for status in (500, 200, 500):
        bench.server.status = status
        assert await ups(bench.sampler, GONE_FAILURES - 1) == [True] * (GONE_FAILURES - 1)
    assert await ups(bench.sampler, 2) == [False, False]
    bench.server.status = 200
    assert (await bench.known()).engine_up


async def test_an_engine_that_refuses_is_down_at_once_until_it_answers_well() -> None:
    async with scrape.Pages() as pages:
        async with page_server() as server:
            sampler = NodeSampler(server.settings, pages)
            assert await ups(sampler, 1) == [True]
        assert await ups(sampler, 1) == [False]
        assert not await silent(sampler)
        async with page_server(server.port) as server:
            server.status = 503
            assert await ups(sampler, GONE_FAILURES) == [False] * GONE_FAILURES
            # Still nobody is there who answered since the refusal.
            assert not await silent(sampler)
            server.status = 200
            assert await ups(sampler, 1) == [True]


async def test_a_parser_that_fails_is_a_failed_scrape() -> None:
    def parse(page: str) -> float:
        return float(int(page))

    async with page_server() as server, scrape.Pages() as pages:
        target = scrape.Target(pages, server.settings.metrics_url, parse, lambda: 0.0)
        server.metrics = "7"
        await target.start()
        assert target.good and target.page == 7.0
        for server.metrics in ("9" * 400, "9" * 5000, "x"):
            await target.start()
            assert not target.good and "cannot be read" in str(target.error)
        server.metrics = "8"
        await target.start()
        assert target.good and target.page == 8.0


async def test_a_restarted_engine_is_another_instance(bench: Bench) -> None:
    await bench.known()
    bench.server.metrics = metrics(started=2000.0, tokens=0)
    assert (await bench.known()).node.instance_id == "n1@2000"


async def test_without_a_start_time_the_first_sight_counts_and_a_fallen_counter_is_a_restart(
    bench: Bench,
) -> None:
    bench.server.metrics = metrics(started=None, tokens=10)
    assert (await bench.known()).node.instance_id == "n1@5000"
    bench.wall_s += 7
    bench.server.metrics = metrics(started=None, tokens=11)
    assert (await bench.known()).node.instance_id == "n1@5000"
    bench.server.metrics = metrics(started=None, tokens=2)
    assert (await bench.known()).node.instance_id == "n1@5007"
    bench.server.metrics = metrics(started=None, tokens=0)
    assert (await bench.known()).node.instance_id == "n1@5008"


async def test_a_restart_shows_although_a_page_in_between_lacks_the_counter(
    bench: Bench,
) -> None:
    for page in ("sglang:generation_tokens_total 10\n", "sglang:num_running_reqs 0\n"):
        bench.server.metrics = page
        assert (await bench.known()).node.instance_id == "n1@5000"
    bench.wall_s += 7
    bench.server.metrics = "sglang:generation_tokens_total 2\n"
    assert (await bench.known()).node.instance_id == "n1@5007"


async def test_another_engine_at_the_same_place_is_another_instance(bench: Bench) -> None:
    for page, second in (
        ("\n", 0),
        ("tgi_queue_size 1\n", 0),
        ("\n", 0),
        ("tgi_queue_size 1\n", 0),
        ("nv_inference_pending_request_count 1\n", 7),
    ):
        bench.server.metrics = page
        bench.wall_s = 5000.0 + second
        assert (await bench.known()).node.instance_id == f"n1@{5000 + second}"


@pytest.mark.parametrize(
    ("page", "running", "waiting"),
    [
        ("sglang:num_running_reqs 3\nsglang:num_queue_reqs 2\n", 3, 2),
        ("tgi_batch_current_size 3\ntgi_queue_size 2\n", 3, 2),
        (
            'nv_trt_llm_request_metrics{request_type="scheduled",model="m"} 3\n'
            'nv_trt_llm_request_metrics{request_type="waiting",model="m"} 2\n',
            3,
            2,
        ),
    ],
)
async def test_any_engine_gives_the_same_signals(
    bench: Bench, page: str, running: int, waiting: int
) -> None:
    bench.server.metrics = page
    sample = await bench.known()
    assert sample.engine_up
    assert sample.engine.running == measured(running)
    assert sample.engine.waiting == measured(waiting)
    bench.server.status = 500
    assert (await bench.known()).engine.waiting.state == SignalState.STALE


async def test_a_machine_s_gpus_are_the_node_s_only_if_it_has_as_many(bench: Bench) -> None:
    def page(*uuids: str) -> str:
        return "".join(f'DCGM_FI_DEV_FB_FREE{{UUID="{uuid}"}} 1\n' for uuid in uuids)

    bench.server.gpus = page("a")
    (gpu,) = (await bench.known()).gpus
    assert gpu.uuid == "a" and gpu.vram_free_bytes == measured(2**20)
    bench.server.gpus = page("a", "b")
    assert (await bench.known()).gpus == ()


async def test_only_changes_are_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for status in (200, 200, 500, 500, 500, 200):
        bench.server.status = status
        await bench.sample()
    about_engine = [r.message for r in caplog.records if "the engine" in r.message]
    assert about_engine == [
        "n1: the engine answers",
        "n1: the engine fails: HTTP status 500",
        "n1: the engine answers",
    ]


async def test_a_source_with_a_clock_of_its_own_shows_how_far_it_is_off(bench: Bench) -> None:
    assert (await bench.known()).clock_offset_s == 0.0
    bench.server.clock = '{"wall_unix_ms": 4995000}'
    assert (await bench.known()).clock_offset_s == pytest.approx(-5.0)
    # While the page does not answer its clock goes on as ours does.
    bench.server.status = 503
    bench.now_s += 0.3
    bench.wall_s += 0.3
    assert (await bench.known()).clock_offset_s == pytest.approx(-5.0)


async def test_a_clock_page_that_comes_late_is_no_wrong_clock(bench: Bench) -> None:
    """It was made half-way between the question and the answer."""
    await bench.known()
    bench.server.clock = '{"wall_unix_ms": 5000200}'
    bench.server.go_on.clear()
    await bench.known(wait_s=0.05)
    bench.now_s += 0.4
    bench.wall_s += 0.4
    bench.server.go_on.set()
    assert (await bench.known()).clock_offset_s == pytest.approx(0.0)
    assert bench.server.asked == 2


@pytest.mark.parametrize(
    "wall", ["1e300", '"noon"', "-1", "true", "null", "NaN", "1" * 400, "1" * 5000, "[" * 5000]
)
async def test_a_clock_that_cannot_be_tells_nothing(bench: Bench, wall: str) -> None:
    bench.server.clock = f'{{"wall_unix_ms": {wall}}}'
    assert (await bench.known()).clock_offset_s == 0.0
