"""Scaling a load in time and in number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.bench.load import load
from isocost.bench.scale import at_rate, cut, scale
from isocost.bench.trace import TraceRequest
from isocost.errors import StartError

TRACE = tuple(
    TraceRequest(float(at_s), 1030, 5, (0, 2 * at_s + 1, 2 * at_s + 2), user=f"u{at_s}")
    for at_s in range(400)
)


def test_a_time_scale_of_two_is_twice_as_fast_and_changes_nothing_else() -> None:
    requests = (TraceRequest(0.0, 7, 9), TraceRequest(30.0, 8, 10, (1,), user="a", kind="A"))
    assert scale(requests, 2.0, 1.0, seed=1) == (
        TraceRequest(0.0, 7, 9),
        TraceRequest(15.0, 8, 10, (1,), user="a", kind="A"),
    )


def test_scales_of_one_change_nothing() -> None:
    assert scale(TRACE, 1.0, 1.0, seed=1) == TRACE


def test_a_rate_scale_of_two_keeps_every_request_and_adds_a_later_one_of_another_user() -> None:
    doubled = scale(TRACE, 1.0, 2.0, seed=1)
    originals = tuple(item for item in doubled if not item.user.endswith("#2"))
    copies = {item.user.removesuffix("#2"): item for item in doubled if item.user.endswith("#2")}
    assert originals == TRACE
    assert len(copies) == len(TRACE)
    gap_s = TRACE[-1].arrival_s / len(TRACE)
    delays = [copies[item.user].arrival_s - item.arrival_s for item in TRACE]
    assert all(0 <= delay < gap_s for delay in delays)
    assert len(set(delays)) == len(TRACE)
    assert all(copies[item.user].input_tokens == item.input_tokens for item in TRACE)


def test_copies_share_the_common_blocks_and_have_all_others_to_themselves() -> None:
    tripled = scale(TRACE, 1.0, 3.0, seed=1)
    assert all(item.blocks[0] == 0 for item in tripled)
    own = [block for item in tripled for block in item.blocks[1:]]
    assert len(set(own)) == len(own) == 3 * 2 * len(TRACE)


def test_copies_of_one_user_share_among_themselves_what_the_originals_share() -> None:
    talk = [TraceRequest(float(turn), 2000, 5, (0, 7, 8, 100 + turn)) for turn in range(5)]
    doubled = scale([*TRACE, *talk], 1.0, 2.0, seed=1)
    prefixes = {item.blocks[:3] for item in doubled if item.input_tokens == 2000}
    assert len(prefixes) == 2


@pytest.mark.parametrize(("rate_scale", "seed"), [(0.4, 1), (1.5, 2), (2.3, 3)])
def test_fractions_of_a_rate_scale_are_met_by_chance(rate_scale: float, seed: int) -> None:
    trace = TRACE * 10
    trace = tuple(sorted(trace, key=lambda item: item.arrival_s))
    assert len(scale(trace, 1.0, rate_scale, seed)) / len(trace) == pytest.approx(
        rate_scale, rel=0.05
    )


@settings(deadline=None)
@given(time_scale=st.floats(0.1, 10), rate_scale=st.floats(0.1, 5), seed=st.integers(0, 2**32 - 1))
def test_scaled_loads_are_repeatable_and_in_order(
    time_scale: float, rate_scale: float, seed: int
) -> None:
    scaled = scale(TRACE, time_scale, rate_scale, seed)
    arrivals = [item.arrival_s for item in scaled]
    assert arrivals == sorted(arrivals)
    assert all(0 <= at_s <= 400 / time_scale for at_s in arrivals)
    assert scaled == scale(TRACE, time_scale, rate_scale, seed)


def test_the_seed_decides_the_copies() -> None:
    assert scale(TRACE, 1.0, 2.0, seed=1) != scale(TRACE, 1.0, 2.0, seed=2)


def test_mooncakes_system_prompt_stays_common_and_conversations_do_not() -> None:
    base = load("mooncake")
    doubled = scale(base, 1.0, 2.0, seed=1)
    assert len(doubled) == 2 * len(base)
    assert {item.blocks[0] for item in doubled} == {0}

    def distinct(requests: tuple[TraceRequest, ...]) -> int:
        return len({block for item in requests for block in item.blocks})

    assert distinct(doubled) == 2 * distinct(base) - 1


def test_a_wanted_rate_stretches_or_squeezes() -> None:
    squeezed = at_rate(TRACE, 4.0)
    assert len(squeezed) == len(TRACE)
    assert squeezed[-1].arrival_s == pytest.approx(399 / 4)


def test_a_rate_of_requests_that_all_come_at_once_is_refused() -> None:
    with pytest.raises(StartError, match=r"rate: .*all arrive at once"):
        at_rate([TraceRequest(0.0, 1, 1)] * 3, 5.0)


def test_a_cut_keeps_what_arrives_before_it() -> None:
    assert cut(TRACE, 10.0) == TRACE[:10]


def test_too_many_requests_are_refused() -> None:
    with pytest.raises(StartError, match="40,000,000 requests; at most 10,000,000"):
        scale(TRACE, 1.0, 1e5, seed=1)
