"""The prompt of a completion request, as an engine with a prefix cache sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isocost.fake.kv_cache import BLOCK_TOKENS
from isocost.fake.prefix import chained_hashes, piece_hashes
from isocost.fake.sequence import Prompt
from isocost.fake.strict import Json, inside, integer, known_keys, refuse

#: English text has about this many bytes a token in today's tokenizers.
BYTES_PER_TOKEN = 4
#: Role mark and separators of a chat template: 4 tokens.
_ROLE_BYTES = 4 * BYTES_PER_TOKEN
_MAX_TOKENS = 2**31


def read_prompt(data: Json, chat: bool, check_length: Callable[[int], None]) -> Prompt:
    """``check_length`` gets the tokens before the work that takes time for each of them: all
    nodes of the process stand still meanwhile.

    BadRequestError: neither ``fake_prompt`` nor what the interface wants, or not well formed.
    """
    given = data.get("fake_prompt")
    if given is not None:
        with inside("fake_prompt"):
            tokens, block_tokens, hashes = _given(given)
        check_length(tokens)
        # Names that stand for all the blocks up to theirs, also where the given ones do not.
        return Prompt(tokens, chained_hashes(b"%d," % item for item in hashes), block_tokens)
    text = b"".join(_chat(data)) if chat else _completion(data, check_length)
    tokens = len(text) // BYTES_PER_TOKEN
    check_length(tokens)
    return Prompt(tokens, piece_hashes(text))


def _given(data: object) -> tuple[int, int, list[int]]:
    """Tokens of the prompt, tokens of a block, and the hash of each block.

    A prompt that only has its length and the names of its blocks, as published traces have it.

    A last block that is not full cannot be found again, so its name is left out.
    """
    if not isinstance(data, dict):
        refuse("(value)", data, "must be an object")
    known_keys(data, ("tokens", "block_tokens", "block_hashes"))
    tokens = integer(data, "tokens", 1, _MAX_TOKENS)
    block_tokens = integer(data, "block_tokens", BLOCK_TOKENS, _MAX_TOKENS)
    if block_tokens % BLOCK_TOKENS:
        refuse("block_tokens", block_tokens, f"must be a multiple of {BLOCK_TOKENS}")
    hashes = data.get("block_hashes")
    if not isinstance(hashes, list) or any(type(item) is not int for item in hashes):
        refuse("block_hashes", hashes, "must be a list of integers")
    most = -(-tokens // block_tokens)
    if len(hashes) > most:
        refuse("block_hashes", len(hashes), f"must be at most {most} for {tokens} tokens")
    return tokens, block_tokens, hashes[: tokens // block_tokens]


def _completion(data: Json, check_length: Callable[[int], None]) -> bytes:
    prompt = data.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return _whole_tokens(prompt)
    if not isinstance(prompt, list) or not prompt or any(type(item) is not int for item in prompt):
        refuse("prompt", prompt, "must be a text or a list of token numbers")
    check_length(len(prompt))
    return b"".join((item % 2**32).to_bytes(BYTES_PER_TOKEN, "little") for item in prompt)


def _chat(data: Json) -> Iterator[bytes]:
    """The messages one after the other, so that a conversation that goes on keeps its prefix."""
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        refuse("messages", messages, "must be a list of at least one message")
    for index, message in enumerate(messages):
        yield from _message(f"messages.{index}", message)


def _message(field: str, message: object) -> Iterator[bytes]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        refuse(field, message, "must be an object with a role")
    yield _bytes(message["role"])[:_ROLE_BYTES].ljust(_ROLE_BYTES)
    content = message.get("content")
    if content is None:
        return
    if isinstance(content, str):
        yield _whole_tokens(content)
        return
    if not isinstance(content, list):
        refuse(f"{field}.content", content, "must be a text or a list of parts")
    for i, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("text", ""), str):
            refuse(f"{field}.content.{i}", part, "must be an object; its text must be a string")
        yield _whole_tokens(part.get("text", ""))


def _whole_tokens(text: str) -> bytes:
    """Filled up to whole tokens, one at least."""
    data = _bytes(text)
    tokens = max(1, -(-len(data) // BYTES_PER_TOKEN))
    return data.ljust(tokens * BYTES_PER_TOKEN)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
