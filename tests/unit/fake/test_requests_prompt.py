"""The prompt of a request as the prefix cache sees it: equal beginnings have equal names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.fake.models import MODELS
from isocost.fake.prompt import BYTES_PER_TOKEN, read_prompt
from isocost.fake.requests import parse_request
from isocost.fake.sequence import Prompt
from isocost.fake.server import MAX_BODY_BYTES
from isocost.fake.strict import BadRequestError
from tests.unit.fake.node_client import MODEL

PIECE_TOKENS = 16
TEXTS = st.text(max_size=300)
MESSAGES = st.lists(
    st.tuples(st.sampled_from(["system", "user", "assistant"]), TEXTS), min_size=1, max_size=6
)


def any_length(_: int) -> None:
    """As if the model had no limit."""


def chat(messages: list[tuple[str, str]]) -> Prompt:
    data = {"messages": [{"role": role, "content": text} for role, text in messages]}
    return read_prompt(data, True, any_length)


def completion(prompt: object) -> Prompt:
    return read_prompt({"prompt": prompt}, False, any_length)


def given_prompt(tokens: int, block_tokens: int, hashes: list[int]) -> Prompt:
    given = {"tokens": tokens, "block_tokens": block_tokens, "block_hashes": hashes}
    return read_prompt({"fake_prompt": given}, True, any_length)


def common(one: Prompt, other: Prompt) -> int:
    """Leading hashes that both have."""
    count = 0
    for mine, theirs in zip(one.hashes, other.hashes, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


@given(MESSAGES, MESSAGES)
def test_a_conversation_that_goes_on_keeps_all_its_full_pieces(
    before: list[tuple[str, str]], more: list[tuple[str, str]]
) -> None:
    first, later = chat(before), chat(before + more)
    assert len(first.hashes) == first.tokens // PIECE_TOKENS
    assert common(first, later) == len(first.hashes)
    assert later.tokens == first.tokens + chat(more).tokens


def test_the_role_is_part_of_the_prompt() -> None:
    text = "x" * 1000
    assert common(chat([("user", text)]), chat([("system", text)])) == 0


def test_a_change_in_the_middle_keeps_the_pieces_before_it_only() -> None:
    text = "x" * 1000
    changed = text[:500] + "y" + text[501:]
    assert common(completion(text), completion(changed)) == 500 // 64


def test_token_numbers_name_their_pieces_too() -> None:
    numbers = list(range(100))
    prompt = completion(numbers)
    assert prompt.tokens == 100 and len(prompt.hashes) == 6
    assert common(prompt, completion([*numbers[:40], -1, 2**40])) == 2


def test_given_hashes_stand_for_the_text() -> None:
    one = given_prompt(1300, 512, [7, 8, 9])
    assert (one.tokens, one.hash_tokens, len(one.hashes)) == (1300, 512, 2)
    other = given_prompt(2048, 512, [7, 8, 10, 11])
    assert common(one, other) == 2


def test_a_given_hash_counts_with_those_before_it() -> None:
    assert common(given_prompt(1024, 512, [7, 8]), given_prompt(1024, 512, [6, 8])) == 0
    one, other = given_prompt(1024, 512, [7, 8]), given_prompt(1024, 512, [6, 8])
    assert one.hashes[1] != other.hashes[1]


def test_given_hashes_that_python_hashes_alike_are_different_blocks() -> None:
    assert hash(-1) == hash(-2) and hash(2**61 - 1) == hash(0)
    for one, other in ((-1, -2), (2**61 - 1, 0)):
        assert common(given_prompt(512, 512, [one]), given_prompt(512, 512, [other])) == 0


@pytest.mark.parametrize(
    "data",
    [
        {"prompt": "x" * 400},
        {"prompt": list(range(100))},
        {"fake_prompt": {"tokens": 100, "block_tokens": 16, "block_hashes": [1, 2]}},
    ],
)
def test_the_length_is_checked_before_anything_is_hashed(
    data: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    # Hashing any piece would fail.
    monkeypatch.setattr("isocost.fake.prefix.blake2b", None)
    with pytest.raises(TypeError):
        read_prompt(data, False, lengths.append)
    assert set(lengths) == {100}


def test_the_longest_body_is_the_longest_prompt_with_every_byte_escaped_and_little_more() -> None:
    tokens = max(model.max_length_tokens for model in MODELS.values())
    escaped = "\\u0041" * BYTES_PER_TOKEN * (tokens - 1)
    body = b'{"prompt": "%b", "max_tokens": 1}' % escaped.encode()
    assert len(body) <= MAX_BODY_BYTES <= len(body) + 2**20
    request = parse_request(body, False, {MODEL: tokens})
    assert request.prompt.tokens == tokens - 1


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        (5, "fake_prompt.(value)", "must be an object"),
        ({"tokens": 0}, "fake_prompt.tokens", "an integer between 1"),
        ({"tokens": 9, "text": "x"}, "fake_prompt.text", "unknown key"),
        ({"tokens": 9}, "fake_prompt.block_tokens", "an integer between 16"),
        (
            {"tokens": 9, "block_tokens": 24, "block_hashes": []},
            "fake_prompt.block_tokens",
            "multiple of 16",
        ),
        (
            {"tokens": 9, "block_tokens": 16},
            "fake_prompt.block_hashes",
            "must be a list of integers",
        ),
        (
            {"tokens": 9, "block_tokens": 16, "block_hashes": [1, True]},
            "fake_prompt.block_hashes",
            "must be a list of integers",
        ),
        (
            {"tokens": 17, "block_tokens": 16, "block_hashes": [1, 2, 3]},
            "fake_prompt.block_hashes",
            "at most 2 for 17 tokens",
        ),
    ],
)
def test_a_bad_given_prompt_names_the_field_and_what_is_allowed(
    given: object, field: str, allowed: str
) -> None:
    with pytest.raises(BadRequestError) as error:
        read_prompt({"fake_prompt": given}, True, any_length)
    assert error.value.field == field
    assert allowed in str(error.value)
