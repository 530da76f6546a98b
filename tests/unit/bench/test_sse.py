"""Streamed answers, cut in every place."""

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from isocost.bench import sse
from isocost.bench.sse import AnswerReader


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(**fields: object) -> dict[str, object]:
    return {"index": 0, "delta": fields}


STREAM = (
    event(choices=[delta(role="assistant", content="")], usage=None)
    + event(choices=[delta(content="one two")])
    + b": a comment\r\n\r\n"
    + event(choices=[delta(content=" three")])
    + event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    + event(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 3})
    + b"data: [DONE]\n\n"
)


def test_a_whole_answer_counts_text_events_and_usage() -> None:
    reader = AnswerReader()
    reader.feed(STREAM, 1.0)
    assert reader.failure is None
    assert (reader.chunks, reader.output_tokens) == (2, 3)


def test_events_may_be_cut_anywhere() -> None:
    reader = AnswerReader()
    for offset in range(len(STREAM)):
        reader.feed(STREAM[offset : offset + 1], float(offset))
    assert reader.failure is None
    assert (reader.chunks, reader.output_tokens) == (2, 3)
    assert reader.first_token_s == STREAM.index(b"one two") + len(b'one two"}}]}')
    assert reader.last_token_s == STREAM.index(b" three") + len(b' three"}}]}')


def test_an_answer_without_done_is_truncated() -> None:
    reader = AnswerReader()
    reader.feed(STREAM.removesuffix(b"data: [DONE]\n\n"), 1.0)
    assert reader.failure == "truncated"


def test_an_error_event_or_garbage_is_a_bad_event_also_before_done() -> None:
    for bad in (
        event(error={"message": "out of memory"}),
        b"data: {oops\n\n",
        b"data: 3\n\n",
        event(choices=[{"text": "no delta"}]),
        b"data: \xff\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        event(choices=[delta(content=7)]),
        event(choices=[delta(content="x"), delta(reasoning=["y"])]),
        event(choices=[delta(content=False)]),
    ):
        reader = AnswerReader()
        reader.feed(bad + b"data: [DONE]\n\n", 1.0)
        assert reader.failure == "bad_event"


@pytest.mark.parametrize(
    "before", [b"", event(choices=[], usage={"completion_tokens": 3}), b": a comment\n\n"]
)
def test_a_stream_that_is_done_before_any_answer_is_no_answer(before: bytes) -> None:
    reader = AnswerReader()
    reader.feed(before + b"data: [DONE]\n\n", 1.0)
    assert (reader.failure, reader.bad_event) == (
        "bad_event",
        b"[DONE] without an answer before it",
    )


def test_an_answer_may_have_no_text() -> None:
    reader = AnswerReader()
    end = event(choices=[{"index": 0, "delta": {"content": None}, "finish_reason": "stop"}])
    reader.feed(end + b"data: [DONE]\n\n", 1.0)
    assert (reader.failure, reader.chunks) == (None, 0)


def test_an_event_whose_error_is_null_is_a_good_one() -> None:
    reader = AnswerReader()
    one = event(error=None, choices=[delta(content="x")])
    reader.feed(one * 20 + b"data: [DONE]\n\n", 1.0)
    assert (reader.failure, reader.chunks) == (None, 20)


@pytest.mark.parametrize(
    "count", [b"1e999", b"-1", b"1000000001", b"true", b"null", b'"3"', b"3.0"]
)
def test_a_count_of_tokens_that_is_none_is_a_bad_event(count: bytes) -> None:
    reader = AnswerReader()
    reader.feed(b'data: {"usage":{"completion_tokens":' + count + b"}}\n", 1.0)
    assert (reader.failure, reader.output_tokens) == ("bad_event", None)
    assert count in reader.bad_event


def test_a_line_without_end_is_a_bad_event_and_is_not_kept() -> None:
    reader = AnswerReader()
    piece = b"x" * 50_000
    for _ in range(100):
        reader.feed(piece, 1.0)
    assert reader.failure == "bad_event"
    assert sum(map(len, reader._rest)) <= sse._MAX_LINE
    reader.feed(b"\n" + STREAM, 2.0)
    assert (reader.failure, reader.chunks) == ("bad_event", 2)


def test_a_long_line_is_put_together_once() -> None:
    """Not with every piece that comes: that would take the square of its length."""
    whole = event(choices=[delta(content="y" * 500_000)])
    reader = AnswerReader()
    for number, start in enumerate(range(0, len(whole) - 2, 1000), 1):
        reader.feed(whole[start : start + 1000].rstrip(b"\n"), 1.0)
        assert len(reader._rest) == number
    reader.feed(b"\n", 1.0)
    assert (reader.failure, reader.chunks) == ("truncated", 1)


def test_the_node_is_the_one_that_the_events_name() -> None:
    reader = AnswerReader()
    reader.feed(event(choices=[delta(content="x")], system_fingerprint=None), 1.0)
    assert reader.node is None
    reader.feed(event(choices=[delta(content="x")], system_fingerprint="n7"), 2.0)
    reader.feed(event(choices=[delta(content="x")], system_fingerprint="n8"), 3.0)
    assert reader.node == "n7"


@pytest.mark.parametrize("key", ["content", "reasoning_content", "reasoning"])
def test_thinking_is_output_too(key: str) -> None:
    reader = AnswerReader()
    reader.feed(event(choices=[delta(**{key: "hm"})]), 1.0)
    assert (reader.chunks, reader.first_token_s) == (1, 1.0)


def everything(reader: AnswerReader) -> tuple[object, ...]:
    """All that a reader has found out."""
    return (
        reader.failure,
        reader.chunks,
        reader.first_token_s,
        reader.last_token_s,
        reader.node,
        reader.output_tokens,
    )


@given(cuts=st.sets(st.integers(1, len(STREAM) - 1)))
def test_how_the_bytes_are_cut_changes_nothing_but_the_times(cuts: set[int]) -> None:
    whole, pieces = AnswerReader(), AnswerReader()
    whole.feed(STREAM, 1.0)
    edges = [0, *sorted(cuts), len(STREAM)]
    for start, end in pairwise(edges):
        pieces.feed(STREAM[start:end], 1.0)
    assert everything(pieces) == everything(whole)


#: Texts that JSON escapes, keys that look like text, and plain text.
TEXTS = st.one_of(
    st.text(max_size=12),
    st.text("abc ", max_size=12),
    st.sampled_from(['"content":"', '","usage":{"completion_tokens":7},"x":"', "\\", '"', "}]}"]),
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "system_fingerprint": st.sampled_from(["n1", "n2", None]),
        "usage": st.sampled_from([None, {"completion_tokens": 3}, {"completion_tokens": "x"}, {}]),
        "error": st.just({"message": "no"}),
        "x": st.fixed_dictionaries({"content": TEXTS}),
    },
)


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """An event's JSON: mostly the same one with another text, as servers write them."""
    text = draw(TEXTS)
    deltas = st.sampled_from([{"content": text}, {"role": "assistant", "content": text}, {}])
    choice = {"index": 0, "delta": draw(deltas), "finish_reason": draw(st.sampled_from([None]))}
    fields = draw(FIELDS) if draw(st.integers(0, 3)) == 0 else {}
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    data = json.dumps(
        {"id": "c", **fields, "choices": [choice]},
        separators=separators,
        ensure_ascii=draw(st.booleans()),
    )
    payload = data.encode("utf-8", errors="surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        place = draw(st.integers(0, len(payload) - 1))
        payload = payload[:place] + draw(st.binary(max_size=2)) + payload[place + 1 :]
    return payload.replace(b"\n", b" ")


PLAIN = b'{"choices":[{"index":0,"delta":{"content":"a"}}]}'
WITH_USAGE = PLAIN[:-1] + b',"usage":{"completion_tokens":%d}}'


@given(st.lists(payloads(), max_size=14))
@example([PLAIN] * 3 + [PLAIN.replace(b'"a"', b'""')])
@example([PLAIN] * 3 + [PLAIN.replace(b'"a"', b'"\x01"')])
@example([PLAIN] * 3 + [PLAIN.replace(b'"a"', b'"a","x":"b"')])
@example([PLAIN] * 3 + [PLAIN.replace(b'"a"', b'"a\\"')])
@example([PLAIN] * 3 + [b'{"choices":[{"index":0,"delta":{"content":"}}]}'])
@example([WITH_USAGE % 3, WITH_USAGE % 5, WITH_USAGE % 3])
@example([b'{"x":{"content":"a"},"choices":[{"delta":{"reasoning":"b"}}]}'] * 4)
def test_events_read_by_template_say_what_parsed_events_say(events: list[bytes]) -> None:
    """A reader that never learns parses every event; one that learns at once must agree."""
    found = []
    for learn_from in (1, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sse, "_LEARN_FROM", learn_from)
            reader = AnswerReader()
            for number, payload in enumerate(events):
                reader.feed(b"data: " + payload + b"\n\n", float(number))
            found.append(everything(reader))
    assert found[0] == found[1]


def test_a_token_stream_is_read_by_template() -> None:
    reader = AnswerReader()
    one = event(choices=[delta(content="word ")], system_fingerprint="n1")
    parsed = 0

    def count(text: bytes) -> object:
        nonlocal parsed
        parsed += 1
        return json.JSONDecoder().decode(text.decode())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sse.json, "loads", count)
        for _ in range(200):
            reader.feed(one, 1.0)
    assert reader.chunks == 200
    assert parsed < 20
