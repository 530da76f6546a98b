"""Which faults hold when, for any schedule."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from isocost.fake.fault_schedule import FaultSchedule
from isocost.fake.faults import Fault, Hang, Order, Refuse, Slow, StaleMetrics

SECONDS = st.integers(0, 40).map(lambda quarter: quarter / 4)
FAULTS = st.one_of(
    st.builds(Slow, st.integers(1, 9).map(float)),
    st.just(Hang()),
    st.just(Refuse()),
    st.just(StaleMetrics()),
)
ORDERS = st.builds(Order, FAULTS, SECONDS, SECONDS.map(lambda for_s: for_s + 0.25))
#: Lists of orders, each given some time after the one before.
HISTORIES = st.lists(st.tuples(SECONDS, st.lists(ORDERS, max_size=3)), max_size=4)


def scheduled(
    history: list[tuple[float, list[Order]]],
) -> tuple[FaultSchedule, float, list[tuple[float, float, Fault]]]:
    """The schedule after its last order, the time of that, and every fault's start and end."""
    schedule, now_s = FaultSchedule(), 0.0
    spans = []
    for wait_s, orders in history:
        now_s += wait_s
        schedule.order(now_s, orders)
        for order in orders:
            assert order.for_s is not None
            start_s = now_s + order.after_s
            spans.append((start_s, start_s + order.for_s, order.fault))
    return schedule, now_s, spans


@given(HISTORIES, SECONDS)
def test_what_holds_is_the_last_ordered_of_each_kind_within_its_time(
    history: list[tuple[float, list[Order]]], later_s: float
) -> None:
    schedule, now_s, spans = scheduled(history)
    now_s += later_s
    expected: dict[type[Fault], Fault] = {}
    for start_s, end_s, fault in spans:
        if start_s <= now_s < end_s:
            expected[type(fault)] = fault
    assert {kind: entry.fault for kind, entry in schedule.active(now_s).items()} == expected


@given(HISTORIES)
def test_following_the_changes_sees_every_start_and_end_and_then_nothing(
    history: list[tuple[float, list[Order]]],
) -> None:
    schedule, now_s, spans = scheduled(history)
    times_s = {time_s for start_s, end_s, _ in spans for time_s in (start_s, end_s)}
    expected = sorted(time_s for time_s in times_s if time_s > now_s)
    met = []
    while (next_s := schedule.next_change_s(now_s)) is not None:
        met.append(next_s)
        now_s = next_s
    assert met == expected
    assert schedule.active(now_s) == {} and schedule.entries(now_s) == []


def test_a_fault_without_an_end_holds_until_it_is_cleared() -> None:
    schedule = FaultSchedule()
    schedule.order(5.0, [Order(Hang(), after_s=1.0)])
    assert schedule.active(5.9) == {}
    assert schedule.active(1e9)[Hang].end_s == math.inf
    assert schedule.next_change_s(6.0) is None
    schedule.clear()
    assert schedule.active(1e9) == {}


def test_one_fault_can_be_ended_early() -> None:
    schedule = FaultSchedule()
    schedule.order(0.0, [Order(Hang()), Order(Slow(2.0))])
    schedule.end(schedule.active(1.0)[Hang])
    assert set(schedule.active(1.0)) == {Slow}
