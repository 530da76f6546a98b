"""The sequences that decode, counted together: what their next steps need, in closed form."""

from __future__ import annotations

from isocost.fake.kv_cache import BLOCK_TOKENS


class DecodingSet:
    """Each is known by its offset: its tokens in the KV cache less the engine's count of steps.

    So the tokens of all grow by one with every step, and no number here changes.
    """

    def __init__(self) -> None:
        self.count = 0
        self._offsets = 0
        #: How many by offset modulo a block: who needs a new block is known by the step.
        self._phases = [0] * BLOCK_TOKENS

    def add(self, offset: int) -> None:
        self.count += 1
        self._offsets += offset
        self._phases[offset % BLOCK_TOKENS] += 1

    def remove(self, offset: int) -> None:
        self.count -= 1
        self._offsets -= offset
        self._phases[offset % BLOCK_TOKENS] -= 1

    def kv_tokens(self, steps: int) -> int:
        """Of all together, with the token that this step computes."""
        return self._offsets + self.count * steps

    def blocks_needed(self, begun: int, steps: int) -> int:
        """New blocks for so many steps after the ``begun`` ones."""
        rounds, rest = divmod(steps, BLOCK_TOKENS)
        phases = self._phases
        return rounds * self.count + sum(
            phases[-(begun + step) % BLOCK_TOKENS] for step in range(rest)
        )

    def steps_within(self, begun: int, most: int, blocks: int) -> int:
        """How many steps after the ``begun`` ones, at most ``most``, so many new blocks allow."""
        if self.blocks_needed(begun, most) <= blocks:
            return most
        rounds = blocks // self.count
        steps = rounds * BLOCK_TOKENS
        left = blocks - rounds * self.count
        while (left := left - self._phases[-(begun + steps) % BLOCK_TOKENS]) >= 0:
            steps += 1
        return steps
