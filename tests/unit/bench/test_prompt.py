"""Filler prompts."""

import json

from isocost.bench.prompt import BYTES_PER_TOKEN, PromptSource


def test_a_prompt_has_the_wanted_length_also_beyond_the_shared_text() -> None:
    source = PromptSource(seed=1)
    for tokens in (1, 374, 14_050, 200_000):
        assert len(source.prompt(tokens)) == tokens * BYTES_PER_TOKEN


def test_prompts_need_no_json_escapes() -> None:
    prompt = PromptSource(seed=1).prompt(60_000).decode("ascii")
    assert json.dumps(prompt) == f'"{prompt}"'


def test_the_seed_decides_the_prompts() -> None:
    first, again, other = PromptSource(1), PromptSource(1), PromptSource(2)
    prompts = [first.prompt(50) for _ in range(4)]
    assert prompts == [again.prompt(50) for _ in range(4)]
    assert prompts != [other.prompt(50) for _ in range(4)]
    assert len(set(prompts)) == 4
