"""Whatever a file holds: requests, or one clear error."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isocost.bench import load as loading
from isocost.bench.load import load
from isocost.errors import StartError

HEADERS = {
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n",
    "burstgpt": "Timestamp,Session ID,Request tokens,Response tokens,Log Type\n",
    "aibrix": "timestamp_ms,prompt_tokens,output_tokens\n",
    "servegen": "client,mean_rate_per_s,rate_weighted_iat_cv,usual_arrival_model,input_mean,"
    "input_p99,output_mean,output_p99\n",
}
NUMBERS = (
    "",
    "0",
    "1",
    "-1",
    "5",
    "7.5",
    "nan",
    "inf",
    "1e15",
    "9" * 400,
    "1_0",
    "\N{ARABIC-INDIC DIGIT THREE}",
)
TIMES = (
    "2023-11-16 18:15:46.5",
    "2024-05-10 00:00:00+99:99",
    "0000-00-00 00:00:00",
    "0001-01-01 00:00:00+23:59",
    "9999-12-31 23:59:59-23:59",
)
OTHERS = ("Gamma", "Weibull", "id-1", "API log", "{}", '"', "\0", "\r")
WORDS = st.sampled_from(NUMBERS + TIMES + OTHERS) | st.text(max_size=8)
ROWS = st.lists(st.lists(WORDS, min_size=1, max_size=9).map(",".join), max_size=6).map("\n".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
OBJECTS = st.lists(
    st.dictionaries(
        st.sampled_from(["timestamp", "input_length", "output_length", "hash_ids"]),
        JSON | st.integers(0, 5000) | st.lists(st.integers(0, 9)),
    ),
    max_size=4,
)
fuzz = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def answers(tmp_path: Path) -> Callable[[bytes, str | None], None]:
    """Load the bytes as a file; anything else than requests or a StartError fails the test."""
    path = tmp_path / "trace"

    def check(data: bytes, format_name: str | None) -> None:
        path.write_bytes(data)
        try:
            requests = load(str(path), format_name, duration_s=1.0, rate=5.0, rate_scale=1.5)
        except StartError as error:
            assert str(error)
        else:
            arrivals = [request.arrival_s for request in requests]
            assert arrivals == sorted(arrivals)
            assert all(0 <= at_s < 1 for at_s in arrivals)
            assert all(request.input_tokens and request.output_tokens for request in requests)

    return check


@pytest.mark.parametrize("format_name", [None, *loading.FORMATS])
@fuzz
@given(data=st.binary(max_size=200))
def test_any_bytes(
    answers: Callable[[bytes, str | None], None], format_name: str | None, data: bytes
) -> None:
    answers(data, format_name)
    answers(b"\x1f\x8b" + data, format_name)
    answers(gzip.compress(data)[: 20 + len(data) // 2], format_name)


@pytest.mark.parametrize("format_name", list(HEADERS))
@fuzz
@given(rows=ROWS)
def test_any_rows_under_the_right_header(
    answers: Callable[[bytes, str | None], None], format_name: str, rows: str
) -> None:
    text = HEADERS[format_name] + rows
    answers(text.encode("utf-8", "surrogatepass"), None)


@fuzz
@given(rows=OBJECTS)
def test_any_objects(answers: Callable[[bytes, str | None], None], rows: list[object]) -> None:
    answers("\n".join(json.dumps(row) for row in rows).encode(), "mooncake")
