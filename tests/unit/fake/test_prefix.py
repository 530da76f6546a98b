"""Texts share as many hashes as they share leading pieces."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from isocost.fake.prefix import PIECE_BYTES, piece_hashes


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """Equal leading items."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


@given(st.binary(max_size=400), st.binary(max_size=200), st.binary(max_size=200))
@example(b"x" * 64, b"a" * 64 + b"y" * 64, b"b" * 64 + b"y" * 64)
def test_as_many_are_equal_as_whole_pieces_are(head: bytes, one: bytes, other: bytes) -> None:
    first, second = head + one, head + other
    shared = common(first, second) // PIECE_BYTES
    assert common(piece_hashes(first), piece_hashes(second)) == shared
    # Nothing is equal behind the first difference, even where the text is.
    later = zip(piece_hashes(first)[shared:], piece_hashes(second)[shared:], strict=False)
    assert all(a != b for a, b in later)


def test_only_full_pieces_have_a_hash_of_64_bits() -> None:
    assert piece_hashes(b"x" * 63) == ()
    hashes = piece_hashes(b"x" * 191)
    assert len(hashes) == 2 and len(set(hashes)) == 2
    assert all(0 <= each < 2**64 for each in hashes)


def test_they_are_the_same_in_every_process() -> None:
    assert piece_hashes(b"isocost " * 8) == (2094714510538048123,)
