"""The trace reader and the bundled slice."""

import pytest

from isocost.bench import trace
from isocost.errors import StartError

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


def parse(*rows: str) -> tuple[trace.TraceRequest, ...]:
    return trace.parse_azure([HEADER, *rows], "test.csv")


def test_seven_digit_fractions_are_read_to_100_ns() -> None:
    requests = parse("2023-11-16 23:59:59.9999999,374,44", "2023-11-17 00:00:00.0000001,396,109")
    assert [request.arrival_s for request in requests] == [0.0, 2e-7]
    assert (requests[0].input_tokens, requests[0].output_tokens) == (374, 44)


def test_short_and_absent_fractions_are_read() -> None:
    requests = parse("2023-11-16 18:15:46,1,1", "2023-11-16 18:15:46.5,1,1")
    assert requests[1].arrival_s == 0.5


@pytest.mark.parametrize(
    "row", ["2023-11-16 18:15:46.1,x,1", "yesterday,1,1", "2023-11-16 18:15:46.1,1"]
)
def test_a_bad_row_is_refused_with_its_line(row: str) -> None:
    with pytest.raises(StartError, match=r"test\.csv: line 3"):
        parse("2023-11-16 18:15:46.1,1,1", row)


def test_another_header_is_refused() -> None:
    with pytest.raises(StartError, match="first line must be TIMESTAMP"):
        trace.parse_azure(["time,in,out", "1,2,3"], "test.csv")


def test_compressing_scales_arrivals_and_nothing_else() -> None:
    requests = parse("2023-11-16 18:15:00.0,7,9", "2023-11-16 18:15:30.0,8,10")
    squeezed = trace.compressed(requests, span_s=600, duration_s=30)
    assert squeezed == (trace.TraceRequest(0.0, 7, 9), trace.TraceRequest(1.5, 8, 10))


def test_the_bundled_slice_is_ten_minutes_of_the_trace() -> None:
    requests = trace.bundled()
    arrivals = [request.arrival_s for request in requests]
    assert len(requests) == 3118
    assert arrivals == sorted(arrivals)
    assert arrivals[0] == 0.0
    assert arrivals[-1] == pytest.approx(599.551155)
    assert arrivals[-1] < trace.BUNDLED_SPAN_S
    assert sum(request.input_tokens for request in requests) == 3595428
    assert sum(request.output_tokens for request in requests) == 766129
    assert max(request.input_tokens for request in requests) == 14050
    assert max(request.output_tokens for request in requests) == 1000
