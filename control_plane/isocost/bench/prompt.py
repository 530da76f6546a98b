"""Prompts of a wanted length: slices of one shared text behind heads that tell them apart.

A request costs no generation, and prefixes are shared exactly where the trace says so.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import count

#: Tokens of English average about this many bytes in the tokenizers of today's models.
BYTES_PER_TOKEN = 4
#: Slices of up to this length hold no repetition; longer than most prompts.
_TEXT_BYTES = 256 * 1024
#: Neighbouring slices begin this far apart: the golden ratio's part, so that they overlap little.
_STRIDE_BYTES = 162_009
_WORDS = """
the of and to in is that it for was on are as with at be this have from or by not but what all were
when we there can an your which their said if do will each about how up out them then she many some
so these would other into has more her two like him see time could no make than first been its who
now people my made over did down only way find use may water long little very after words called
just where most know weights nodes answer question
"""


class PromptSource:
    """Gives prompts as ASCII text without characters that JSON would escape.

    The seed is in every head: prompts of different seeds share nothing, so that a run does not
    find what another one left in the caches. Give each turn of a comparison a seed of its own.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._numbers = count()

    def prompt(self, tokens: int, blocks: Sequence[int] = (), block_tokens: int = 512) -> bytes:
        """``tokens * BYTES_PER_TOKEN`` bytes; with the same first k blocks, the same first k texts.

        What no block names is this call's own: its n-th call's prompt begins with n.
        """
        wanted = tokens * BYTES_PER_TOKEN
        block_bytes = block_tokens * BYTES_PER_TOKEN
        named = [self._block(block, block_bytes) for block in blocks[: -(-tokens // block_tokens)]]
        own = next(self._numbers)
        missing = wanted - len(named) * block_bytes
        if missing > 0:
            named.append(_slice(b"%d asks %d: " % (own, self._seed), own, missing))
        return b"".join(named)[:wanted]

    def _block(self, block: int, size: int) -> bytes:
        return _slice(b"%d of %d: " % (block, self._seed), block, size)


def _slice(head: bytes, number: int, size: int) -> bytes:
    """``head`` and then the shared text from a place that ``number`` decides."""
    text = _text()
    start = number * _STRIDE_BYTES % _TEXT_BYTES
    piece = head + text[start : start + size]
    while len(piece) < size:
        piece += text[: size - len(piece)]
    return piece[:size]


@cache
def _text() -> bytes:
    """Words in a random order that is always the same."""
    rng = random.Random(1)
    words, text = _WORDS.split(), ""
    while len(text) < _TEXT_BYTES:
        text += " ".join(rng.choices(words, k=10_000)) + " "
    return text[:_TEXT_BYTES].encode()
