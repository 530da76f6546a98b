"""Prompts of a wanted length: slices of one shared text, so that a request costs no generation."""

from __future__ import annotations

import random

#: Tokens of English average about this many bytes in the tokenizers of today's models.
BYTES_PER_TOKEN = 4
#: Longest slice without repetition; beyond the longest prompt of the bundled trace (56 KB).
_TEXT_BYTES = 256 * 1024
_WORDS = """
the of and to in is that it for was on are as with at be this have from or by not but what all were
when we there can an your which their said if do will each about how up out them then she many some
so these would other into has more her two like him see time could no make than first been its who
now people my made over did down only way find use may water long little very after words called
just where most know weights nodes answer question
"""


class PromptSource:
    """Gives prompts as ASCII text without characters that JSON would escape."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        words, text = _WORDS.split(), ""
        while len(text) < _TEXT_BYTES:
            text += " ".join(self._random.choices(words, k=10_000)) + " "
        self._text = text[:_TEXT_BYTES].encode()

    def prompt(self, tokens: int) -> bytes:
        """About ``tokens`` tokens of text. Each starts elsewhere, so prefixes are not shared."""
        wanted = tokens * BYTES_PER_TOKEN
        start = self._random.randrange(_TEXT_BYTES)
        piece = self._text[start : start + wanted]
        while len(piece) < wanted:
            piece += self._text[: wanted - len(piece)]
        return piece
