"""The paged KV memory of one engine, with its prefix cache.

As vLLM V1 keeps it (vllm/v1/core/block_pool.py): one list of free blocks, least recently used
first. A block that was freed keeps its content, and its hash, until a new block is needed and it
is the first of the list; until then a prompt that begins in the same way takes it back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

#: Tokens of a block, vLLM's default.
BLOCK_TOKENS = 16


def blocks_of(tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)


class KvCache:
    """Counts blocks; a *piece* is a hashed run of full blocks, named by a number >= 0.

    Blocks without a name (of decoded tokens, of the end of a prompt) are only counted.
    """

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        #: Free or holding a piece that nobody uses: can be taken.
        self.free_blocks = blocks
        #: Pieces in use, with how many sequences use each.
        self._held: dict[int, int] = {}
        #: The free list: idle pieces, and nameless blocks under numbers below 0; with their blocks.
        self._free: OrderedDict[int, int] = OrderedDict({-1: blocks})
        self._last_nameless = -1

    @property
    def used_blocks(self) -> int:
        """Blocks of live sequences; a shared one counts once."""
        return self.blocks - self.free_blocks

    def found(self, pieces: Sequence[int], limit: int) -> int:
        """How many of the leading pieces, at most ``limit``, are in the cache."""
        held, free = self._held, self._free
        for index in range(limit):
            piece = pieces[index]
            if piece not in held and piece not in free:
                return index
        return limit

    def fits(self, pieces: Sequence[int], new_blocks: int) -> bool:
        """Whether so many new blocks can be taken while all of these found pieces are kept."""
        if new_blocks > self.free_blocks:
            return False
        free = self._free
        return new_blocks <= self.free_blocks - sum(free.get(piece, 0) for piece in pieces)

    def hold(self, pieces: Sequence[int]) -> None:
        """Use pieces that were found, so that they are not taken."""
        held, free = self._held, self._free
        for piece in pieces:
            if piece in held:
                held[piece] += 1
            else:
                held[piece] = 1
                self.free_blocks -= free.pop(piece)

    def take(self, blocks: int) -> None:
        """New blocks from the head of the free list. The caller knows that there are as many."""
        self.free_blocks -= blocks
        free = self._free
        while blocks > 0:
            name, size = free.popitem(last=False)
            if size > blocks:
                # A piece is evicted whole: what is left of it has no name.
                if name >= 0:
                    name = self._nameless()
                free[name] = size - blocks
                free.move_to_end(name, last=False)
            blocks -= size

    def publish(self, piece: int) -> bool:
        """Give taken blocks their name, held once. False: another copy has it already."""
        if piece in self._held or piece in self._free:
            return False
        self._held[piece] = 1
        return True

    def release(self, pieces: Sequence[int], piece_blocks: int, nameless_blocks: int) -> None:
        """A sequence lets go of its blocks, the last first: its tail will be taken before its head.

        ``pieces`` are in the order of the prompt and have ``piece_blocks`` each.
        """
        held, free = self._held, self._free
        if nameless_blocks:
            free[self._nameless()] = nameless_blocks
            self.free_blocks += nameless_blocks
        for piece in reversed(pieces):
            users = held[piece] - 1
            if users:
                held[piece] = users
            else:
                del held[piece]
                free[piece] = piece_blocks
                self.free_blocks += piece_blocks

    def _nameless(self) -> int:
        self._last_nameless -= 1
        return self._last_nameless
