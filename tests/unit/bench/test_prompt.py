"""Prompts: their length, and who shares which prefix."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.bench.load import load
from isocost.bench.prompt import BYTES_PER_TOKEN, PromptSource

BLOCK_BYTES = 512 * BYTES_PER_TOKEN
#: Two texts that share nothing differ within this: less than the smallest piece engines cache.
SOON = 32


def shared_bytes(one: bytes, two: bytes) -> int:
    """How many bytes both begin with."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(two)))


def test_a_prompt_has_the_wanted_length_also_beyond_the_shared_text() -> None:
    source = PromptSource(seed=1)
    for tokens in (1, 374, 14_050, 200_000):
        assert len(source.prompt(tokens)) == tokens * BYTES_PER_TOKEN
        assert len(source.prompt(tokens, range(tokens))) == tokens * BYTES_PER_TOKEN


def test_prompts_need_no_json_escapes() -> None:
    source = PromptSource(seed=1)
    for blocks in ((), range(30), (-(2**63), 2**64)):
        prompt = source.prompt(100_000, blocks).decode("ascii")
        assert json.dumps(prompt) == f'"{prompt}"'


def test_without_blocks_no_two_prompts_begin_alike() -> None:
    source = PromptSource(seed=1)
    heads = {source.prompt(100)[:SOON] for _ in range(20_000)}
    assert len(heads) == 20_000


def test_the_same_seed_gives_the_same_prompts_and_another_shares_nothing() -> None:
    first, again, other = PromptSource(1), PromptSource(1), PromptSource(2)
    for blocks in ((), (4, 5)):
        prompt = first.prompt(2000, blocks)
        assert again.prompt(2000, blocks) == prompt
        assert shared_bytes(prompt, other.prompt(2000, blocks)) < SOON


@given(
    shared=st.lists(st.integers(-(2**63), 2**64 - 1), max_size=6),
    ends=st.lists(st.integers(0, 2**20), min_size=2, max_size=2, unique=True),
    more=st.tuples(st.integers(8, 512), st.integers(8, 512)),
)
def test_requests_that_share_k_blocks_share_k_blocks_of_text_and_differ_right_after(
    shared: list[int], ends: list[int], more: tuple[int, int]
) -> None:
    source = PromptSource(seed=3)
    one, two = (
        source.prompt(512 * len(shared) + tokens, [*shared, end])
        for end, tokens in zip(ends, more, strict=True)
    )
    common = shared_bytes(one, two)
    assert len(shared) * BLOCK_BYTES <= common < len(shared) * BLOCK_BYTES + SOON


def test_a_block_has_the_same_text_wherever_and_whenever_it_comes() -> None:
    source = PromptSource(seed=1)
    first = source.prompt(1024, (7, 8))
    source.prompt(512)
    assert source.prompt(1024, (9, 8))[BLOCK_BYTES:] == first[BLOCK_BYTES:]
    assert source.prompt(700, (7, 8)) == first[: 700 * BYTES_PER_TOKEN]


def test_what_no_block_names_is_the_prompts_own() -> None:
    source = PromptSource(seed=1)
    one, two = source.prompt(2000, (7,)), source.prompt(2000, (7,))
    common = shared_bytes(one, two)
    assert BLOCK_BYTES <= common < BLOCK_BYTES + SOON


@pytest.mark.parametrize("block_tokens", [16, 512])
def test_blocks_have_the_traces_own_size(block_tokens: int) -> None:
    source = PromptSource(seed=1)
    size = block_tokens * BYTES_PER_TOKEN
    one = source.prompt(3 * block_tokens, (1, 2, 3), block_tokens)
    two = source.prompt(3 * block_tokens, (1, 2, 4), block_tokens)
    assert one[: 2 * size] == two[: 2 * size]
    assert one[2 * size : 2 * size + SOON] != two[2 * size : 2 * size + SOON]


def test_the_bundled_traces_prefixes_are_in_the_prompts() -> None:
    source = PromptSource(seed=1)
    seen: dict[tuple[int, ...], bytes] = {}
    for request in load("mooncake", duration_s=30):
        prompt = source.prompt(request.input_tokens, request.blocks)
        for count in range(1, request.input_tokens // 512 + 1):
            text = prompt[(count - 1) * BLOCK_BYTES : count * BLOCK_BYTES]
            assert seen.setdefault(request.blocks[:count], text) == text
    assert len(set(seen.values())) == len(seen)
