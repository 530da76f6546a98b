"""Which answers are good enough."""

import pytest

from isocost.bench.goodput import Goodput, Slo, goodput
from isocost.errors import RejectedError
from tests.unit.bench.measured import answer


def test_an_answer_is_good_at_the_limit_and_not_beyond_it() -> None:
    # TPOT (300 - 100) / 8 = 25 ms
    timed = answer(ttft_ms=100, e2e_ms=300)
    for limits, met in (
        ({}, True),
        ({"ttft_ms": timed.ttft_ms, "tpot_ms": timed.tpot_ms, "e2e_ms": timed.e2e_ms}, True),
        ({"ttft_ms": 100.01, "tpot_ms": 25.01, "e2e_ms": 300.01}, True),
        ({"ttft_ms": 99.9}, False),
        ({"tpot_ms": 24.9}, False),
        ({"e2e_ms": 299.9}, False),
        ({"ttft_ms": 500, "e2e_ms": 299.9}, False),
    ):
        assert Slo(**limits).met_by(timed) is met


def test_a_failed_answer_is_never_good() -> None:
    assert not Slo().met_by(answer(failure="truncated"))


def test_an_unknown_time_keeps_no_limit() -> None:
    in_one_chunk = answer()
    object.__setattr__(in_one_chunk, "chunks", 1)
    assert in_one_chunk.tpot_ms is None
    assert Slo(ttft_ms=1e9).met_by(in_one_chunk)
    assert not Slo(tpot_ms=1e9).met_by(in_one_chunk)


def test_an_answer_of_one_token_has_no_time_per_token_to_keep() -> None:
    assert Slo(tpot_ms=1).met_by(answer(output_tokens=1))


def test_goodput_is_of_the_requests_sent_failed_ones_included() -> None:
    results = [answer(ttft_ms=100), answer(ttft_ms=900), answer(failure="reset"), answer()]
    assert goodput(results, Slo(ttft_ms=500), 10.0) == Goodput(0.2, 0.5)
    assert goodput(results, Slo(), 10.0) == Goodput(0.3, 0.75)


def test_nothing_sent_has_no_goodput() -> None:
    assert goodput([], Slo(), 10.0) == Goodput(None, None)
    assert goodput([answer()], Slo(), 0.0) == Goodput(None, 1.0)


def test_an_slo_is_read_from_its_limits() -> None:
    assert Slo.parse("ttft_ms=850, tpot_ms = 50") == Slo(850, 50, None)
    assert Slo.parse("e2e_ms=5e3") == Slo(e2e_ms=5000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not allowed; LIMIT=MS once for each of ttft_ms, tpot_ms, e2e_ms"),
        ("ttft=850", "'ttft=850' is not allowed"),
        ("ttft_ms=1,ttft_ms=2", "'ttft_ms=2' is not allowed; LIMIT=MS once"),
        ("ttft_ms=fast", "ttft_ms=fast is not allowed; a number of ms above 0"),
        ("ttft_ms", "ttft_ms= is not allowed"),
        ("ttft_ms=0", "ttft_ms=0 is not allowed"),
        ("ttft_ms=nan", "ttft_ms=nan is not allowed"),
        ("ttft_ms=inf", "ttft_ms=inf is not allowed"),
    ],
)
def test_a_bad_slo_says_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(RejectedError) as caught:
        Slo.parse(text)
    assert said in str(caught.value)
