"""A late tick is dropped, never piled up, and the next one keeps the schedule."""

from hypothesis import given
from hypothesis import strategies as st

from isocost.schedule import next_tick_s


def test_ticks_are_multiples_of_the_interval_from_the_start() -> None:
    assert next_tick_s(100.0, 0.25, 100.0) == 100.25
    assert next_tick_s(100.0, 0.25, 100.3) == 100.5


def test_a_tick_that_took_three_intervals_is_followed_by_one_tick() -> None:
    assert next_tick_s(100.0, 0.25, 100.8) == 101.0


@given(st.floats(0, 1e6), st.floats(0.02, 10.0), st.floats(0, 1e5))
def test_the_next_tick_is_within_one_interval_and_not_in_the_past(
    start_s: float, interval_s: float, later_s: float
) -> None:
    now_s = start_s + later_s
    due_s = next_tick_s(start_s, interval_s, now_s)
    assert now_s - 1e-6 <= due_s <= now_s + interval_s + 1e-6
