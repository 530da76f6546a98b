"""A late tick is dropped, never piled up, and the next one keeps the schedule."""

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost import schedule
from isocost.schedule import first_tick_in_s, next_tick_s, report_lead_s, ticks_of


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


@given(st.sampled_from([0.02, 0.2, 1.0]), st.floats(0, 0.1), st.floats(1.7e9, 2.0e9))
def test_the_first_tick_is_within_one_interval_and_leads_a_multiple_of_it(
    interval_s: float, lead_s: float, unix_s: float
) -> None:
    wait_s = first_tick_in_s(interval_s, lead_s, unix_s)
    assert 0 <= wait_s <= interval_s
    remainder = (unix_s + wait_s + lead_s) % interval_s
    assert min(remainder, interval_s - remainder) < 1e-5


def test_agents_lead_the_tick_by_different_times() -> None:
    leads = [report_lead_s(f"host-{index}") for index in range(1000)]
    assert min(leads) >= 0.06
    assert max(leads) <= 0.1
    assert max(leads) - min(leads) > 0.035


async def test_an_interval_that_changes_counts_from_the_next_tick_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which interval each tick came from; each schedule is closed when another one begins."""
    interval_s, closed = [0.2], []

    async def ticks(now_s: float, _: float) -> AsyncGenerator[float, None]:
        try:
            while True:
                yield now_s
        finally:
            closed.append(now_s)

    monkeypatch.setattr(schedule, "ticks", ticks)
    told: list[float] = []
    async for tick_s in ticks_of(lambda: interval_s[-1]):
        told.append(tick_s)
        if len(told) == 2:
            interval_s.append(0.5)
        if len(told) == 4:
            break
    assert told == [0.2, 0.2, 0.5, 0.5]
    assert closed[0] == 0.2
