"""Streamed answers, cut in every place."""

import json

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
    ):
        reader = AnswerReader()
        reader.feed(bad + b"data: [DONE]\n\n", 1.0)
        assert reader.failure == "bad_event"
