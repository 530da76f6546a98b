"""A calibration finds what the engine was built with."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import numpy as np
import pytest

from isocost.calibrate.entropy import entropy_coefficients, lives
from isocost.calibrate.flight import Flight
from isocost.calibrate.measure import Measured, measure
from isocost.calibrate.plan import Load, Plan, Shape
from isocost.calibrate.result import Calibration
from isocost.config import EntropySettings
from isocost.errors import FitError, StartError
from isocost.fake.measured import MEASURED
from isocost.fake.models import MODELS
from isocost.fake.roofline import roofline_speed
from isocost.fake.sequence import Prompt
from isocost.fake.speeds import Speed
from isocost.model import EngineSample, measured
from tests.unit.calibrate.simulated import (
    SUBJECT,
    TEMPLATE_TOKENS,
    SimulatedEngine,
    calibrate_simulated,
    calibrated,
    in_virtual_time,
)

PLAN = Plan(seconds=2.0)
QUICK = Plan(lengths=(256, 2048), seconds=1.0)
H100 = MEASURED[("H100", "llama-3.1-8b", 1)]
SPEEDS = {
    "H100": H100,
    "slow sequences": replace(H100, sequence_s=150e-6),
    "slow KV cache": replace(H100, context_s=260e-9),
    "slow prompts": replace(H100, token_s=60e-6, pair_s=0.0),
    "nothing hidden": replace(H100, hidden_s=0.0),
    "A100, 70B on 4": roofline_speed("A100", MODELS["llama-3.1-70b"], 4),
}


def truth(speed: Speed, found: Calibration) -> np.ndarray:
    """The coefficients of the fit, by the engine's own. The probe is in every step, at 84 tokens
    on average.
    """
    alone = speed.step_s + speed.sequence_s + speed.context_s * 84
    prompts = [
        speed.exposed_s(speed.prefill_s(length + TEMPLATE_TOKENS, 0))
        for length in found.causes.lengths
    ]
    return np.array([alone, speed.sequence_s, speed.context_s, *prompts])


@pytest.mark.parametrize("speed", SPEEDS.values(), ids=SPEEDS)
def test_every_coefficient_is_the_engines_within_five_percent(speed: Speed) -> None:
    found = calibrated(speed, PLAN)
    coefficients, true = found.causes.fit.coefficients, truth(speed, found)
    assert coefficients[:3] == pytest.approx(true[:3], rel=0.05)
    for length, cost_s, true_s in zip(PLAN.lengths, coefficients[3:], true[3:], strict=True):
        # Most of a short prompt is hidden: what is left is a small part of its work.
        assert abs(cost_s - true_s) < 0.05 * speed.prefill_s(length, 0), length
    assert found.causes.fit.condition < 10


def test_answers_in_a_few_pieces_will_do() -> None:
    """As fake nodes stream unless told otherwise."""
    found = calibrated(H100, PLAN, pieces=8)
    assert found.causes.fit.coefficients[:3] == pytest.approx(truth(H100, found)[:3], rel=0.05)


@pytest.mark.parametrize("name", ["H100", "slow sequences", "A100, 70B on 4"])
def test_the_entropys_coefficients_are_those_of_the_engines_constants(name: str) -> None:
    speed, results = SPEEDS[name], []

    async def work() -> Calibration:
        engine = SimulatedEngine(speed)
        for load in PLAN.loads(440_000, None)[:-1]:
            results.append(await measure(engine, load, PLAN.seconds))
        return await calibrate_simulated(engine, PLAN)

    found = in_virtual_time(work())
    exact = replace(found.causes, fit=replace(found.causes.fit, coefficients=truth(speed, found)))
    wanted = entropy_coefficients(
        exact, lives(results), SUBJECT.kv_bytes_per_token, EntropySettings()
    )
    for key in ("kv_per_gb", "age_per_s", "net_per_mb"):
        value, true = getattr(found.entropy, key).value, getattr(wanted, key).value
        assert value == pytest.approx(true, rel=0.05), key
    assert found.entropy.waiting_request == pytest.approx(wanted.waiting_request, rel=0.05)


def test_a_cause_without_cost_has_coefficient_zero() -> None:
    found = calibrated(replace(H100, context_s=0.0), QUICK)
    assert found.causes.kv_token_s == pytest.approx(0.0, abs=0.02 * H100.context_s)
    assert found.causes.sequence_s == pytest.approx(H100.sequence_s, rel=0.05)


def test_an_engine_that_is_twice_as_slow_costs_twice_and_answers_half() -> None:
    names = ("frontend_s", "step_s", "sequence_s", "context_s", "token_s", "pair_s", "hidden_s")
    slow = replace(H100, **{name: 2 * getattr(H100, name) for name in names})
    one, other = calibrated(H100, QUICK), calibrated(slow, QUICK)
    assert other.causes.kv_token_s == pytest.approx(2 * one.causes.kv_token_s, rel=0.02)
    assert other.capacity.requests_per_s == pytest.approx(one.capacity.requests_per_s / 2, rel=0.05)


def test_the_measured_requests_have_the_entropy_that_they_have_with_the_defaults() -> None:
    results: list[Measured] = []

    async def work() -> Calibration:
        engine = SimulatedEngine(H100)
        for load in QUICK.loads(440_000, None)[:-1]:
            results.append(await measure(engine, load, QUICK.seconds))
        return await calibrate_simulated(engine, QUICK)

    found = in_virtual_time(work()).entropy

    def entropy(kv_per_gb: float, age_per_s: float, net_per_mb: float) -> float:
        """Over the lives of one request of each shape."""
        return sum(
            kv_per_gb * life.kv_token_steps * life.step_s * SUBJECT.kv_bytes_per_token / 1e9
            + age_per_s * life.open_s**2 / 2 / 64
            + net_per_mb * life.moved_mb * 5 / 64
            for life in lives(results)
        )

    assert entropy(
        found.kv_per_gb.value, found.age_per_s.value, found.net_per_mb.value
    ) == pytest.approx(entropy(0.3, 0.5, 0.2), rel=0.02)


def test_memory_is_what_the_engines_page_shows() -> None:
    memory = calibrated(H100, PLAN).memory
    assert memory is not None
    assert memory.input_token.value == pytest.approx(1.0, rel=0.05)
    assert memory.output_token.value == pytest.approx(1.0, rel=0.05)
    # The rest of a block of 16.
    assert memory.request.value == pytest.approx(7.5, abs=1.5)


def test_the_fit_foresees_the_speed_of_a_mix_that_it_has_not_seen() -> None:
    capacity = calibrated(H100, PLAN).capacity
    assert capacity.concurrency == 64
    assert capacity.expected_token_s == pytest.approx(capacity.token_s, rel=0.02)


@pytest.mark.parametrize("lengths", [(512,), (512, 600)])
def test_lengths_that_cannot_tell_the_causes_apart_are_refused(lengths: tuple[int, ...]) -> None:
    with pytest.raises(FitError, match=r"condition number \d+.*open requests, KV cache"):
        calibrated(H100, Plan(lengths=lengths, seconds=1.0))


class LateEngine(SimulatedEngine):
    """Its pieces arrive up to 200 ms late."""

    def __init__(self) -> None:
        super().__init__(H100)
        self._random = random.Random(7)

    def arrived_s(self, at_s: float) -> float:
        return at_s + self._random.random() * 0.2


def test_measurements_that_are_too_noisy_are_refused() -> None:
    async def work() -> None:
        await calibrate_simulated(LateEngine(), QUICK)

    with pytest.raises(FitError, match=r"too noisy: what .* cost is known to"):
        in_virtual_time(work())


def test_an_engine_that_others_use_at_the_start_is_not_measured() -> None:
    async def work() -> None:
        engine = SimulatedEngine(H100)
        async with asyncio.TaskGroup() as tasks:
            other = tasks.create_task(engine.send(Flight(Shape(100, 100_000))))
            await asyncio.sleep(1.0)
            try:
                await calibrate_simulated(engine, QUICK)
            finally:
                other.cancel()

    with pytest.raises(ExceptionGroup) as caught:
        in_virtual_time(work())
    assert caught.group_contains(StartError, match="1 requests that are not ours")


def test_others_that_come_during_the_measurement_end_it() -> None:
    async def work() -> None:
        engine = SimulatedEngine(H100)

        async def others() -> None:
            await asyncio.sleep(3.0)
            for _ in range(30):
                engine.engine.submit(engine.now_s(), Prompt(100), range(1, 20_001))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(others())
            await measure(engine, Load((Shape(128, 128),), 4), 60.0)

    with pytest.raises(ExceptionGroup) as caught:
        in_virtual_time(work())
    assert caught.group_contains(StartError, match="of which 5 are ours")


class CountingMoreEngine(SimulatedEngine):
    """Between two looks at its page it serves short requests of others."""

    async def sample(self) -> EngineSample | None:
        sample = await super().sample()
        assert sample is not None
        total = sample.prompt_tokens_total.value
        return replace(sample, prompt_tokens_total=measured(1.5 * total))


def test_prompts_of_others_between_two_samples_are_noticed() -> None:
    async def work() -> None:
        await calibrate_simulated(CountingMoreEngine(H100), QUICK)

    with pytest.raises(StartError, match="prompt tokens of others"):
        in_virtual_time(work())


def test_fewer_requests_at_once_where_the_kv_cache_is_small() -> None:
    loads = Plan(concurrency=16).loads(60_000, None)
    assert [load.concurrency for load in loads] == [16, 16, 16, 16, 16, 16, 5, 5, 15]
