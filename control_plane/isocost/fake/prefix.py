"""Names for the leading pieces of a prompt, so that equal beginnings are found equal."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

#: One block of 16 tokens, at four bytes a token.
PIECE_BYTES = 64


def piece_hashes(text: bytes) -> tuple[int, ...]:
    """A hash for each full piece of 64 bytes (one block of tokens): see chained_hashes."""
    ends = range(PIECE_BYTES, len(text) + 1, PIECE_BYTES)
    return chained_hashes(text[end - PIECE_BYTES : end] for end in ends)


def chained_hashes(pieces: Iterable[bytes]) -> tuple[int, ...]:
    """A 64-bit hash for each piece, of everything up to its end: prompts share as many leading
    hashes as they share leading pieces.
    """
    chain = blake2b(digest_size=8)
    hashes = []
    for piece in pieces:
        chain.update(piece)
        hashes.append(int.from_bytes(chain.digest(), "little"))
    return tuple(hashes)
