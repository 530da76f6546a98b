"""What a fake node answers with."""

from __future__ import annotations

import json

import pytest

from isocost.fake.answers import Answer, error_body, fake_text
from isocost.fake.requests import parse_request


def answer(tokens: int) -> Answer:
    body = json.dumps({"prompt": "hello", "max_tokens": tokens}).encode()
    return Answer(parse_request(body, False, {"m": 2**20}), 0, "n1", fake_text(0))


def text_of(events: bytes) -> str:
    data = [event.removeprefix("data: ") for event in events.decode().split("\n\n")]
    return "".join(json.loads(event)["choices"][0]["text"] for event in data[:-2])


@pytest.mark.parametrize("tokens", [30, 10_000])
def test_a_streamed_answer_is_the_one_in_one_piece(tokens: int) -> None:
    """Also one that is longer than the text that its words come from."""
    whole = json.loads(answer(tokens).whole(0))["choices"][0]["text"]
    assert len(whole) == 4 * tokens
    streamed = answer(tokens)
    pieces = [streamed.event(tokens // 10 * part) for part in range(1, 10)]
    assert text_of(b"".join([*pieces, streamed.last_event(0)])) == whole


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (404, "NotFoundError"),
        (429, "Too Many Requests"),
        (500, "InternalServerError"),
        (503, "Service Unavailable"),
        (599, "Error"),
    ],
)
def test_an_error_has_the_type_that_vllm_gives_it(status: int, kind: str) -> None:
    error = {"message": "no", "type": kind, "param": None, "code": status}
    assert json.loads(error_body(status, "no")) == {"error": error}
