"""What was open in a window, counted in the engine's steps."""

from __future__ import annotations

import pytest

from isocost.calibrate.flight import Flight
from isocost.calibrate.levels import Alone, Window, levels
from isocost.calibrate.plan import Shape

#: Ten steps of a second from 100 on.
WINDOW = Window(tuple(100.0 + step for step in range(11)), 10)
ALONE = Alone(step_s=1.0, first_token_s=2.0)


def flight(first_s: float, last_s: float | None, prompt: int = 100) -> Flight:
    """One token a second; None = it was cut at 200."""
    end_s = 200.0 if last_s is None else last_s
    pieces = [first_s + second for second in range(int(end_s - first_s) + 1)]
    return Flight(
        Shape(prompt, 500),
        sent_s=first_s - 2,
        pieces=pieces,
        end_s=end_s,
        input_tokens=prompt,
        output_tokens=None if last_s is None else len(pieces),
    )


def test_one_that_is_there_all_the_time_is_in_every_step() -> None:
    for last_s in (150.0, None):
        level = levels(WINDOW, [flight(80.0, last_s)], ALONE)
        assert level.sequences == pytest.approx(1.0)
        # 20 tokens said before, and 1 to 10 more in the steps of the window.
        assert level.kv_tokens == pytest.approx(125.5)
        assert level.prompts == {}


def test_one_that_begins_within_counts_from_then_on_with_its_prompt() -> None:
    level = levels(WINDOW, [flight(104.0, 150.0)], ALONE)
    assert level.sequences == pytest.approx(0.6)
    assert level.kv_tokens == pytest.approx(6 * 103.5 / 10)
    assert level.prompts == {100: pytest.approx(0.1)}


def test_one_that_ends_within_counts_until_then() -> None:
    level = levels(WINDOW, [flight(80.0, 103.0)], ALONE)
    assert level.sequences == pytest.approx(0.3)
    assert level.kv_tokens == pytest.approx(3 * 122.0 / 10)


def test_steps_are_counted_not_seconds() -> None:
    """A long step of a prompt is one step."""
    window = Window((0.0, 1.0, 2.0, 12.0, 13.0), 4)
    level = levels(window, [flight(2.0, None)], ALONE)
    assert level.sequences == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("first_s", "counted"), [(99.8, 0), (100.3, 0), (100.9, 1), (110.3, 1), (110.9, 0)]
)
def test_a_prompt_counts_where_its_step_does_though_connections_differ(
    first_s: float, counted: int
) -> None:
    level = levels(WINDOW, [flight(first_s, None)], ALONE)
    assert sum(level.prompts.values()) == pytest.approx(counted / 10)


def test_a_prompt_of_several_steps_counts_for_the_part_within() -> None:
    """It is computed for 4 s beyond what a short one needs; half a step is how late it may come."""
    long = flight(112.5, None)
    long.sent_s -= 4.0
    level = levels(WINDOW, [long], ALONE)
    assert level.prompts[100] * WINDOW.tokens == pytest.approx(2 / 4)


def test_one_without_a_token_is_not_there() -> None:
    waiting = Flight(Shape(100, 10), sent_s=90.0, end_s=200.0)
    assert levels(WINDOW, [waiting], ALONE).sequences == 0.0
