"""The form of the speeds, and that the roofline orders cards, models and counts as it must."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.errors import ConfigError
from isocost.fake.cards import CARDS
from isocost.fake.hardware import Hardware
from isocost.fake.measured import MEASURED, speed_of
from isocost.fake.models import MODELS, ModelSpec, model_named
from isocost.fake.roofline import roofline_speed
from isocost.fake.speeds import Speed

SPEED = Speed(
    frontend_s=0.02,
    step_s=0.03,
    sequence_s=0.0003,
    context_s=1e-8,
    token_s=1e-4,
    pair_s=1e-9,
    hidden_s=0.02,
    chunk_s=0.005,
    crowded_after_s=0.2,
    crowded_share=0.5,
)


def pairs() -> list[tuple[str, ModelSpec, int]]:
    """Everything that a node can be."""
    found = []
    for kind, model, count in itertools.product(CARDS, MODELS.values(), (1, 2, 4, 8)):
        try:
            found.append((kind, Hardware(kind, count, model).model, count))
        except ConfigError:
            continue
    return found


PAIRS = pairs()


def costs(speed: Speed) -> tuple[float, ...]:
    """A step of one sequence, of many with long contexts, and prompts of several lengths."""
    return (
        speed.decode_s(1),
        speed.decode_s(128) + 128 * 2000 * speed.context_s,
        *(
            speed.decode_s(0) + speed.exposed_s(speed.prefill_s(tokens, 0))
            for tokens in (128, 2048, 32_768)
        ),
    )


def test_a_step_grows_with_its_sequences_and_a_prefill_step_has_the_base() -> None:
    assert SPEED.decode_s(0) == 0.03
    assert SPEED.decode_s(64) == pytest.approx(0.03 + 64 * 0.0003)


def test_a_chunk_costs_its_tokens_and_the_attention_to_what_is_before_it() -> None:
    assert SPEED.prefill_s(100, 0) == pytest.approx(0.005 + 0.01 + 1e-9 * 100 * 50)
    assert SPEED.prefill_s(100, 1000) == pytest.approx(0.005 + 0.01 + 1e-9 * 100 * 1050)


def test_chunks_of_a_prompt_attend_to_as_much_as_the_whole_prompt() -> None:
    parts = sum(SPEED.prefill_s(1024, before) for before in range(0, 8192, 1024))
    assert parts - 7 * SPEED.chunk_s == pytest.approx(SPEED.prefill_s(8192, 0))


def test_prompt_work_hides_behind_the_weights_as_far_as_it_can() -> None:
    assert SPEED.exposed_s(0.0) == SPEED.exposed_s(0.02) == 0.0
    assert SPEED.exposed_s(0.05) == pytest.approx(0.03)


def test_a_crowded_step_takes_longer_for_each_token_beyond() -> None:
    assert SPEED.exposed_s(0.3) == pytest.approx(0.3 + 0.1 * 0.5 - 0.02)


@given(st.floats(0, 100), st.floats(0, 100))
def test_more_work_never_makes_a_step_shorter(one_s: float, more_s: float) -> None:
    assert SPEED.exposed_s(one_s) <= SPEED.exposed_s(one_s + more_s)


@pytest.mark.parametrize(("kind", "model", "count"), PAIRS, ids=str)
def test_every_speed_is_finite_and_costs_something(kind: str, model: ModelSpec, count: int) -> None:
    speed = speed_of(kind, model, count)
    assert all(0 < cost < math.inf for cost in costs(speed))
    assert 0 < speed.frontend_s < 0.1 and 0 <= speed.hidden_s <= speed.step_s


@pytest.mark.parametrize(("kind", "model", "count"), PAIRS, ids=str)
def test_an_a100_is_slower_than_an_h100(kind: str, model: ModelSpec, count: int) -> None:
    if kind == "A100":
        faster = costs(speed_of("H100", model, count))
        assert all(
            a < b for a, b in zip(faster, costs(speed_of("A100", model, count)), strict=True)
        )


@pytest.mark.parametrize(("kind", "model", "count"), PAIRS, ids=str)
def test_more_cards_are_not_slower_by_the_roofline(kind: str, model: ModelSpec, count: int) -> None:
    if (kind, model, count * 2) in PAIRS:
        one, two = roofline_speed(kind, model, count), roofline_speed(kind, model, count * 2)
        assert all(b <= a for a, b in zip(costs(one), costs(two), strict=True))


@pytest.mark.parametrize("kind", CARDS)
@pytest.mark.parametrize(
    ("smaller", "bigger"),
    [
        ("llama2-7b", "llama-3.1-70b"),
        ("llama-3.1-8b", "qwen2.5-32b"),
        ("qwen2.5-7b", "qwen2.5-32b"),
        ("qwen2.5-32b", "qwen2.5-72b"),
        ("llama-3.1-70b", "qwen2.5-72b"),
    ],
)
def test_a_bigger_model_is_slower_by_the_roofline(kind: str, smaller: str, bigger: str) -> None:
    less, more = (roofline_speed(kind, model_named(name), 4) for name in (smaller, bigger))
    assert all(a < b for a, b in zip(costs(less), costs(more), strict=True))


def test_measured_constants_go_before_the_roofline() -> None:
    model = model_named("llama2-70b")
    assert speed_of("H100", model, 8) is MEASURED["H100", "llama2-70b", 8]
    assert speed_of("H100", model_named("qwen-72b"), 8) == roofline_speed(
        "H100", model_named("qwen-72b"), 8
    )


def test_what_is_measured_can_be_run() -> None:
    assert {(kind, model.name, count) for kind, model, count in PAIRS} >= set(MEASURED)
