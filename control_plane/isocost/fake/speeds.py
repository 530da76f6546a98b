"""How long an engine's steps take, from a few constants.

A step reads all weights once, whatever is in it; each decoding sequence adds a little, and its KV
cache is read. Prompt tokens are arithmetic, and hide behind the reading of the weights as far as it
lasts: the roofline, max(memory, compute), taken over the whole step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Speed:
    """A step lasts ``decode_s(sequences) + context_s * their KV tokens + exposed_s(work)``, where
    the work is the sum of ``prefill_s`` over its prompt chunks.

    ``frontend_s``: the way through HTTP and tokenizer before the queue. ``step_s``: a step without
    anything in it. ``token_s``: a prompt token; ``pair_s``: its attention to one token up to it;
    ``chunk_s``: a prompt chunk, whatever its length. ``hidden_s``: the work of a step that costs
    nothing. Work beyond ``crowded_after_s`` in one step takes ``crowded_share`` more.
    """

    frontend_s: float
    step_s: float
    sequence_s: float
    context_s: float
    token_s: float
    pair_s: float
    hidden_s: float
    chunk_s: float = 0.0
    crowded_after_s: float = math.inf
    crowded_share: float = 0.0

    def decode_s(self, decoding: int) -> float:
        """A step of so many decoding sequences; 0 = one that only prefills."""
        return self.step_s + self.sequence_s * decoding

    def prefill_s(self, new_tokens: int, before_tokens: int) -> float:
        """The work of one prompt chunk; it attends to itself and to ``before_tokens`` before it."""
        pairs = new_tokens * (before_tokens + new_tokens / 2)
        return self.chunk_s + new_tokens * self.token_s + pairs * self.pair_s

    def exposed_s(self, work_s: float) -> float:
        """What all prompt chunks of a step together make it longer."""
        crowded_s = max(work_s - self.crowded_after_s, 0.0) * self.crowded_share
        return max(work_s + crowded_s - self.hidden_s, 0.0)
