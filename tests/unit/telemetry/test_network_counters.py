"""The kernel's texts as numbers, and rises: never negative, never more than a port can carry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.errors import TelemetryError
from isocost.telemetry.flow import WINDOW_S, Flow, advance, begin
from isocost.telemetry.network_counters import (
    MAX_BYTES_PER_S,
    MAX_WRAPPING_BYTES_PER_S,
    SATURATED,
    interface_rise,
    port_rise,
    read_net_dev,
    read_port_counter,
)
from tests.unit.telemetry.fake_machine import HEADING, net_dev

COUNTERS = st.integers(0, 2**64 - 1)
GIB = 2**30


@pytest.mark.parametrize(
    ("line", "name", "numbers"),
    [
        ("    lo: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0", "lo", (5, 6)),
        ("eth0:1215645 9 0 0 0 0 0 0 20 9 0 0 0 0 0 0", "eth0", (1215645, 20)),
        (
            "enp193s0f1np1v15:18446744073709551615 9 0 0 0 0 0 0 20 9 0 0 0 0 0 0 77 88 99",
            "enp193s0f1np1v15",
            (2**64 - 1, 20),
        ),
        ("eth0:1:5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0", "eth0:1", (5, 6)),
        ("eth0:1: No statistics available.", "eth0:1", None),
        ("eth0: 5 1 0 0 0 0 0 0", "eth0", None),
        ("eth0: -5 1 0 0 0 0 0 0 6 1", "eth0", None),
        ("eth0: 1_0 1 0 0 0 0 0 0 6 1", "eth0", None),
        (f"eth0: {'9' * 5000} 1 0 0 0 0 0 0 6 1", "eth0", None),
    ],
)
def test_interfaces_in_every_form(line: str, name: str, numbers: tuple[int, int] | None) -> None:
    assert read_net_dev(HEADING + line + "\n") == {name: numbers}


def test_the_heading_tells_where_the_bytes_sent_are() -> None:
    text = "Inter-| Receive | Transmit\n face |bytes packets|bytes packets\n eth0: 1 2 3 4\n"
    assert read_net_dev(text) == {"eth0": (1, 3)}


@pytest.mark.parametrize(
    "text",
    ["", "\n", "eth0: 1 2\n", "Inter-|\n face |packets errs|packets\n eth0: 1 2 3\n", "a\nb|c\n"],
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(TelemetryError, match="not the list of interfaces"):
        read_net_dev(text)


@given(st.text(max_size=60), st.integers(0, 400), st.integers(0, 400))
def test_a_damaged_list_is_read_or_refused(insert: str, one: int, other: int) -> None:
    good = net_dev(lo=(1, 2), eth0=(3, 4))
    start, end = sorted((one, other))
    try:
        interfaces = read_net_dev(good[:start] + insert + good[end:])
    except TelemetryError:
        return
    for name, numbers in interfaces.items():
        assert name == name.strip() != ""
        assert numbers is None or min(numbers) >= 0


def test_a_port_that_does_not_count_is_told_from_a_damaged_one() -> None:
    assert read_port_counter("70\n") == 70
    assert read_port_counter("N/A (no PMA)\n") is None
    for text in ("", "seventy", "-1", "\ufffd"):
        with pytest.raises(TelemetryError):
            read_port_counter(text)


@given(COUNTERS, COUNTERS, st.floats(0.001, WINDOW_S))
def test_no_rise_is_negative_or_more_than_a_port_carries(
    before: int, now: int, elapsed_s: float
) -> None:
    for rise in (interface_rise, port_rise):
        rose = rise(before, now, elapsed_s)
        assert rose is None or 0 <= rose <= MAX_BYTES_PER_S * elapsed_s


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3.0), st.floats(0, 1))
def test_a_32_bit_interface_counter_loses_nothing_when_it_wraps(
    before: int, elapsed_s: float, share: float
) -> None:
    moved = int(share * MAX_WRAPPING_BYTES_PER_S * elapsed_s)
    assert interface_rise(before, (before + moved) % 2**32, elapsed_s) == moved


@pytest.mark.parametrize(
    ("before", "now"), [(500 * GIB, 0), (500 * GIB, 499 * GIB), (GIB, 5), (5, 500 * GIB)]
)
def test_an_interface_that_began_anew_or_became_another_shows_no_rise(
    before: int, now: int
) -> None:
    assert interface_rise(before, now, 0.2) is None


def test_a_port_counts_words_and_says_nothing_once_saturated_or_cleared() -> None:
    assert port_rise(100, 350, 0.2) == 1000
    assert port_rise(SATURATED, SATURATED, 0.2) is None
    assert port_rise(SATURATED - 5, SATURATED, 0.2) is None
    assert port_rise(SATURATED, 3, 0.2) is None
    assert port_rise(350, 100, 0.2) is None
    assert port_rise(SATURATED - 5, SATURATED + 5, 0.2) == 40


@given(
    st.lists(st.tuples(st.floats(0.05, 1.0), st.integers(0, 10**9)), min_size=1, max_size=60),
    st.integers(0, 2**64),
)
def test_a_rate_is_the_mean_of_the_window(steps: list[tuple[float, int]], start: int) -> None:
    flow, now_s, count = begin((start, 0), 0.0), 0.0, start
    moments = [(now_s, count)]
    for after_s, moved in steps:
        now_s, count = now_s + after_s, count + moved
        moments.append((now_s, count))
        flow = advance(flow, (count, 0), now_s, interface_rise)
        first_s, first = next(moment for moment in moments if now_s - moment[0] <= WINDOW_S)
        assert flow.rate == pytest.approx((count - first) / (now_s - first_s))
        assert flow.rated_s == now_s


@given(st.lists(st.tuples(st.floats(0.001, 8.0), COUNTERS, COUNTERS), max_size=40))
def test_whatever_the_counters_a_rate_is_one_that_ports_carry(
    readings: list[tuple[float, int, int]],
) -> None:
    flow: Flow | None = None
    now_s = 0.0
    for after_s, received, sent in readings:
        now_s += after_s
        counters = (received, sent)
        flow = advance(flow, counters, now_s, interface_rise) if flow else begin(counters, now_s)
        assert flow.rate is None or 0 <= flow.rate <= 2 * MAX_BYTES_PER_S * 1.001
        assert len(flow.moved) <= 1 + len(readings)
