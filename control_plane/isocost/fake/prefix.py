"""Names for the leading pieces of a prompt's text, so that equal beginnings are found equal."""

from __future__ import annotations

from hashlib import blake2b

#: One block of 16 tokens, at four bytes a token.
PIECE_BYTES = 64


def piece_hashes(text: bytes) -> tuple[int, ...]:
    """A 64-bit hash for each full piece of 64 bytes (one block of tokens), of the text up to its
    end: texts share as many leading hashes as they share leading pieces.
    """
    chain = blake2b(digest_size=8)
    hashes = []
    for start in range(0, len(text) - PIECE_BYTES + 1, PIECE_BYTES):
        chain.update(text[start : start + PIECE_BYTES])
        hashes.append(int.from_bytes(chain.digest(), "little"))
    return tuple(hashes)
