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
from isocost.bench.sources.rows import MAX_TOKENS
from isocost.bench.trace import TraceRequest
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
#: A row that is good under each header: most others are refused at once.
GOOD = {
    "azure": ("2023-11-16 18:15:46.5", "5", "7"),
    "burstgpt": ("5", "id-1", "5", "7", "API log"),
    "aibrix": ("5", "5", "7"),
    "servegen": ("c", "2", "1", "Gamma", "100", "300", "50", "200"),
}
ANY_ROW = st.lists(WORDS, min_size=1, max_size=9)


def rows_of(format_name: str) -> st.SearchStrategy[str]:
    """Good rows, such with another word in a place or two, and any others."""
    good = GOOD[format_name]
    words = st.tuples(st.integers(0, len(good) - 1), WORDS)
    changed = st.lists(words, max_size=2).map(
        lambda changes: [dict(changes).get(place, word) for place, word in enumerate(good)]
    )
    rows = st.lists(changed, max_size=6) | st.lists(changed | ANY_ROW, max_size=6)
    return rows.map(lambda chosen: "\n".join(map(",".join, chosen)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
VALUES = JSON | st.integers(0, 5000) | st.lists(st.integers(0, 9))
KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
LENGTHS = st.integers(1, 1000)
GOOD_OBJECT = st.fixed_dictionaries(
    {"timestamp": LENGTHS, "input_length": LENGTHS, "output_length": LENGTHS}
)
OBJECTS = st.lists(GOOD_OBJECT | st.dictionaries(st.sampled_from(KEYS), VALUES), max_size=4)
fuzz = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


#: Of requests that are generated: the longest lengths.
GENERATED_TOKENS = 131_072
Answers = Callable[[bytes, str | None], tuple[TraceRequest, ...]]


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    """Load the bytes as a file; anything else than requests or a StartError (no requests) fails
    the test."""
    path = tmp_path / "trace"

    def check(data: bytes, format_name: str | None) -> tuple[TraceRequest, ...]:
        path.write_bytes(data)
        try:
            requests = load(str(path), format_name, duration_s=1.0, rate=5.0, rate_scale=1.5)
        except StartError as error:
            assert str(error)
            return ()
        arrivals = [request.arrival_s for request in requests]
        assert arrivals == sorted(arrivals)
        assert all(0 <= at_s < 1 for at_s in arrivals)
        for request in requests:
            assert 1 <= request.input_tokens <= MAX_TOKENS
            assert 1 <= request.output_tokens <= MAX_TOKENS
        return requests

    return check


@pytest.mark.parametrize("format_name", [None, *loading.FORMATS])
@fuzz
@given(data=st.binary(max_size=200))
def test_any_bytes(answers: Answers, format_name: str | None, data: bytes) -> None:
    answers(data, format_name)
    answers(b"\x1f\x8b" + data, format_name)
    answers(gzip.compress(data)[: 20 + len(data) // 2], format_name)


@pytest.mark.parametrize("format_name", list(HEADERS))
@fuzz
@given(data=st.data())
def test_any_rows_under_the_right_header(
    answers: Answers, format_name: str, data: st.DataObject
) -> None:
    rows = data.draw(rows_of(format_name))
    text = HEADERS[format_name] + rows
    for request in answers(text.encode("utf-8", "surrogatepass"), None):
        if format_name == "servegen":
            assert max(request.input_tokens, request.output_tokens) <= GENERATED_TOKENS
        else:
            # A length is one that the file states, digit by digit.
            assert f"{request.input_tokens}" in rows and f"{request.output_tokens}" in rows


@fuzz
@given(rows=OBJECTS)
def test_any_objects(answers: Answers, rows: list[dict[str, object]]) -> None:
    stated = [(row.get("input_length"), row.get("output_length")) for row in rows]
    blocks = [len(ids) for row in rows if isinstance(ids := row.get("hash_ids"), list)]
    for request in answers("\n".join(json.dumps(row) for row in rows).encode(), "mooncake"):
        assert (request.input_tokens, request.output_tokens) in stated
        assert not request.blocks or len(request.blocks) in blocks
