"""Answers that are not streamed: what is one, and what is wrong with what is none."""

import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.bench import whole_answer
from isocost.bench.whole_answer import WholeAnswerReader

#: Braces, quotes and letters of more than one byte, where a cut could look like an end.
MESSAGE = {"role": "assistant", "content": 'f() { return "}" } {} \\ é✓', "tool_calls": []}
USAGE = {"prompt_tokens": 5, "completion_tokens": 3}
ANSWER = {
    "id": "c",
    "choices": [{"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}],
    "usage": USAGE,
    "system_fingerprint": "n7",
}
BODY = json.dumps(ANSWER, ensure_ascii=False).encode()


def read(pieces: Iterable[bytes]) -> WholeAnswerReader:
    reader = WholeAnswerReader()
    for piece in pieces:
        reader.feed(piece, 1.0)
    reader.end(2.0)
    return reader


def with_(**changes: object) -> bytes:
    """The answer with other members; those that are None are left out."""
    members = {**ANSWER, **changes}
    return json.dumps(
        {name: value for name, value in members.items() if value is not None}
    ).encode()


def message(**fields: object) -> bytes:
    return with_(choices=[{"index": 0, "message": fields}])


def test_a_whole_answer_tells_its_node_and_tokens_and_no_times() -> None:
    reader = read([BODY])
    assert (reader.failure, reader.node, reader.output_tokens) == (None, "n7", 3)
    assert (reader.first_token_s, reader.last_token_s, reader.chunks) == (None, None, 0)


@given(cuts=st.sets(st.integers(1, len(BODY) - 1)))
def test_how_the_bytes_are_cut_changes_nothing(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(BODY)]
    reader = read(BODY[start:end] for start, end in pairwise(edges))
    assert (reader.failure, reader.node, reader.output_tokens) == (None, "n7", 3)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("indent", [None, 1])
def test_every_beginning_of_an_answer_is_truncated(
    separators: tuple[str, str], ensure_ascii: bool, indent: int | None
) -> None:
    body = json.dumps(ANSWER, separators=separators, ensure_ascii=ensure_ascii, indent=indent)
    data = body.encode()
    for length in range(len(data)):
        reader = read([data[:length]])
        assert (reader.failure, reader.output_tokens) == ("truncated", None), data[:length]
    assert read([data + b"\n"]).failure is None


@pytest.mark.parametrize(
    "body",
    [
        message(role="assistant", content=""),
        message(role="assistant", content=None),
        message(role="assistant", content=None, tool_calls=[{"id": "t", "type": "function"}]),
        message(content=None, reasoning_content="hm"),
        with_(choices=[{"message": {"content": "a"}}, {"message": {"content": "b"}}]),
        b'{"error": null,' + BODY[1:],
        b" \r\n" + BODY + b"\r\n",
    ],
)
def test_an_answer_may_have_no_text_several_choices_and_space_around_it(body: bytes) -> None:
    assert read([body]).failure is None


@pytest.mark.parametrize(
    "body",
    [
        *(b"null", b"3", b"[]", b'"text"', b"{}", b"{oops}", b"{'choices': []}", b"\xff{}"),
        *(b"<html>busy</html>", b"[" * 100_000, BODY + BODY),
        b'data: {"choices":[{"delta":{"content":"word"}}]}\n\ndata: [DONE]\n\n',
        with_(error={"message": "out of memory"}),
        with_(error="no"),
        with_(choices=None),
        with_(choices=[]),
        with_(choices={"0": {"message": MESSAGE}}),
        with_(choices=["a"]),
        with_(choices=[{"text": "of a completion"}]),
        with_(choices=[{"delta": {"content": "of a stream"}}]),
        with_(choices=[{"message": "a"}]),
        with_(choices=[{"message": {"content": "a"}}, {"message": None}]),
        message(content=7),
        message(content=["a"]),
        message(content=False),
        message(content="a", reasoning=["b"]),
        with_(usage=[3]),
        with_(usage={"prompt_tokens": 5}),
    ],
)
def test_what_is_no_answer_is_a_bad_event(body: bytes) -> None:
    reader = read([body])
    assert (reader.failure, reader.bad_event) == ("bad_event", body.strip())


@pytest.mark.parametrize(
    "count", [b"1e999", b"-1", b"1000000001", b"true", b"null", b'"3"', b"3.0", b"NaN"]
)
def test_a_count_of_tokens_that_is_none_is_a_bad_event(count: bytes) -> None:
    reader = read([BODY.replace(b'"completion_tokens": 3', b'"completion_tokens": ' + count)])
    assert (reader.failure, reader.output_tokens) == ("bad_event", None)


def test_without_usage_the_tokens_are_unknown_and_without_a_name_the_node_is() -> None:
    for usage in (b"null", b'null,"x":1'):
        reader = read([with_(usage=None)[:-1] + b',"usage":' + usage + b"}"])
        assert (reader.failure, reader.output_tokens) == (None, None)
    for name in ("", 7, None):
        reader = read([with_(system_fingerprint=name, usage=None)])
        assert (reader.failure, reader.output_tokens, reader.node) == (None, None, None)
    none_told = read([with_(usage={**USAGE, "completion_tokens": 0})])
    assert none_told.output_tokens == 0


def test_an_answer_that_has_not_ended_is_truncated() -> None:
    reader = WholeAnswerReader()
    reader.feed(BODY, 1.0)
    assert reader.failure == "truncated"


def test_a_body_that_is_too_long_is_a_bad_event_and_is_not_kept() -> None:
    body = message(content="y" * whole_answer._MAX_BODY)
    reader = WholeAnswerReader()
    for start in range(0, len(body), 1 << 20):
        reader.feed(body[start : start + (1 << 20)], 1.0)
    reader.end(2.0)
    assert reader.failure == "bad_event"
    assert reader.bad_event == body[: 1 << 20]


def test_a_body_up_to_the_limit_is_read() -> None:
    body = message(content="")
    body = message(content="y" * (whole_answer._MAX_BODY - len(body)))
    assert len(body) == whole_answer._MAX_BODY
    assert read([body]).failure is None
