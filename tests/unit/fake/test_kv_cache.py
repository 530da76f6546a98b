"""The KV pool: counted exactly, taken in the order of last use, found again by its beginning."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isocost.fake.kv_cache import KvCache, blocks_of

BLOCKS = 12


def fill(cache: KvCache, pieces: list[int], nameless: int = 0) -> list[int]:
    """As a sequence does that finds nothing; returns what it holds by name."""
    cache.take(len(pieces) + nameless)
    return [piece for piece in pieces if cache.publish(piece)]


def cached(cache: KvCache, pieces: list[int]) -> list[int]:
    """Those that would be found first."""
    return [piece for piece in pieces if cache.found([piece], 1)]


def test_blocks_are_counted_up() -> None:
    assert [blocks_of(tokens) for tokens in (0, 1, 16, 17)] == [0, 1, 1, 2]


def test_the_least_recently_used_sequence_is_evicted_first_and_its_tail_before_its_head() -> None:
    cache = KvCache(6)
    first = fill(cache, [1, 2, 3])
    second = fill(cache, [4, 5, 6])
    cache.release(second, 1, 0)
    cache.release(first, 1, 0)
    gone = []
    for _ in range(6):
        before = cached(cache, [1, 2, 3, 4, 5, 6])
        cache.take(1)
        gone += sorted(set(before) - set(cached(cache, before)))
    assert gone == [6, 5, 4, 3, 2, 1]


def test_what_is_used_again_is_young_again() -> None:
    cache = KvCache(4)
    cache.release(fill(cache, [1, 2]), 1, 0)
    cache.release(fill(cache, [3, 4]), 1, 0)
    cache.hold([1, 2])
    cache.release([1, 2], 1, 0)
    cache.take(2)
    assert cached(cache, [1, 2, 3, 4]) == [1, 2]


def test_never_used_blocks_are_taken_before_cached_ones_and_held_ones_never() -> None:
    cache = KvCache(6)
    held = fill(cache, [1, 2])
    cache.release(fill(cache, [3, 4]), 1, 0)
    cache.take(2)
    assert cached(cache, [1, 2, 3, 4]) == [1, 2, 3, 4]
    cache.take(2)
    assert cached(cache, [1, 2, 3, 4]) == [1, 2]
    cache.release(held, 1, 0)
    assert cache.free_blocks == 2


def test_only_the_leading_pieces_count() -> None:
    cache = KvCache(8)
    fill(cache, [1, 2, 4])
    assert cache.found([1, 2, 3, 4], 4) == 2
    assert cache.found([9, 2], 2) == 0
    assert cache.found([1, 2], 1) == 1


def test_a_shared_piece_counts_once_and_stays_until_its_last_user_lets_go() -> None:
    cache = KvCache(4)
    fill(cache, [1, 2])
    cache.hold([1, 2])
    assert cache.used_blocks == 2
    cache.release([1, 2], 1, 0)
    assert cache.used_blocks == 2
    cache.release([1, 2], 1, 0)
    assert cache.used_blocks == 0


def test_a_piece_of_many_blocks_is_evicted_whole_and_its_rest_is_taken_next() -> None:
    cache = KvCache(64)
    cache.take(64)
    assert cache.publish(1) and cache.publish(2)
    cache.release([1, 2], 32, 0)
    cache.take(1)
    assert cached(cache, [1, 2]) == [1] and cache.free_blocks == 63
    cache.take(31)
    assert cached(cache, [1, 2]) == [1]


def test_found_blocks_are_not_counted_as_room_for_new_ones() -> None:
    cache = KvCache(4)
    cache.release(fill(cache, [1, 2]), 1, 0)
    assert cache.fits([1, 2], 2) and not cache.fits([1, 2], 3)
    cache.hold([1, 2])
    assert cache.fits([1, 2], 2) and not cache.fits([1, 2], 3)


class Pool(RuleBasedStateMachine):
    """Sequences that come and go; a list of every block's name is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = KvCache(BLOCKS)
        self.free: list[int | None] = [None] * BLOCKS
        self.live: list[tuple[list[int], int]] = []

    @rule(name=st.integers(0, 2), pieces=st.integers(0, BLOCKS), nameless=st.integers(0, 3))
    def enter(self, name: int, pieces: int, nameless: int) -> None:
        names = [name * 100 + piece for piece in range(pieces)]
        known = {piece for held, _ in self.live for piece in held} | set(self.free)
        found = next((i for i, piece in enumerate(names) if piece not in known), pieces)
        assert self.cache.found(names, pieces) == found
        new = pieces - found + nameless
        left = [piece for piece in self.free if piece not in names[:found]]
        assert self.cache.fits(names[:found], new) == (new <= len(left))
        if new > len(left):
            return
        self.cache.hold(names[:found])
        self.cache.take(new)
        self.free = left[new:]
        held = [piece for piece in names[found:] if self.cache.publish(piece)]
        assert held == [piece for piece in names[found:] if piece not in {*known} - {*left[:new]}]
        self.live.append((names[:found] + held, new - len(held)))

    @precondition(lambda self: self.live)
    @rule(choose=st.data())
    def leave(self, choose: st.DataObject) -> None:
        held, nameless = self.live.pop(choose.draw(st.integers(0, len(self.live) - 1)))
        self.cache.release(held, 1, nameless)
        self.free += [None] * nameless
        others = {piece for names, _ in self.live for piece in names}
        self.free += [piece for piece in reversed(held) if piece not in others]

    @invariant()
    def counts(self) -> None:
        named = {piece for held, _ in self.live for piece in held}
        assert self.cache.used_blocks == len(named) + sum(count for _, count in self.live)
        assert self.cache.free_blocks == len(self.free)


TestPool = Pool.TestCase
