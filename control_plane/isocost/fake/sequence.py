"""One request as the engine sees it: its prompt, its progress, and what of it is reported."""

from __future__ import annotations

from collections.abc import Sequence as Marks
from dataclasses import dataclass, field

from isocost.fake.kv_cache import BLOCK_TOKENS, blocks_of

#: Spreads piece sizes over 64 bits (the golden ratio), so that pieces of different sizes never
#: have the same name in the cache.
_SIZE_SALT = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Prompt:
    """``hashes[i]`` names the tokens [0, (i + 1) * hash_tokens): chained, full pieces only.

    ValueError: a field that cannot be.
    """

    tokens: int
    hashes: tuple[int, ...] = ()
    hash_tokens: int = BLOCK_TOKENS

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"tokens = {self.tokens}; a prompt has at least 1")
        if self.hash_tokens < BLOCK_TOKENS or self.hash_tokens % BLOCK_TOKENS:
            raise ValueError(f"hash_tokens = {self.hash_tokens}; must be a multiple of 16")
        if len(self.hashes) * self.hash_tokens > self.tokens:
            raise ValueError(
                f"{len(self.hashes)} hashes of {self.hash_tokens} tokens are more than the "
                f"prompt's {self.tokens} tokens"
            )
        if self.hashes and not 0 <= min(self.hashes) <= max(self.hashes) < 2**64:
            raise ValueError("hashes must be between 0 and 2^64 - 1")

    def pieces(self) -> tuple[int, ...]:
        """The names of its pieces in the KV cache."""
        if self.hash_tokens == BLOCK_TOKENS:
            return self.hashes
        salt = self.hash_tokens * _SIZE_SALT & (2**64 - 1)
        return tuple(piece ^ salt for piece in self.hashes)


@dataclass(slots=True, eq=False)
class Sequence:
    """``marks`` are the ascending token counts worth reporting: the first is 1, the last the
    length of the answer. The rest is the engine's.
    """

    number: int
    prompt: Prompt
    marks: Marks[int]
    submitted_s: float
    pieces: tuple[int, ...]
    #: What must be computed before its next token: the prompt, after a preemption also its answer.
    prefill_tokens: int
    #: When the frontend let it through to the queue.
    ready_s: float = 0.0
    ended: bool = False
    queued: bool = False
    #: When it first left the queue, and when it last did.
    scheduled_s: float | None = None
    admitted_s: float = 0.0
    #: Admissions before that: the lower, the longer it has been running.
    admission: int = 0
    #: Tokens of its prompt that the prefix cache had when it first left the queue.
    cached_tokens: int = 0
    first_token_s: float | None = None
    computed_tokens: int = 0
    published: int = 0
    held: list[int] = field(default_factory=list)
    #: While it decodes: its tokens in the KV cache, less the engine's count of steps.
    offset: int | None = None
    next_mark: int = 0
    #: When it reached the mark before that.
    reported_s: float = 0.0

    @property
    def output_tokens(self) -> int:
        return self.marks[-1]

    @property
    def most_blocks(self) -> int:
        """At its end."""
        return blocks_of(self.prompt.tokens + self.output_tokens)

    @property
    def due_step(self) -> int | None:
        """The step that brings it to its next mark; None while it does not decode."""
        if self.offset is None:
            return None
        return self.marks[self.next_mark] + self.prompt.tokens - 1 - self.offset

    @property
    def piece_blocks(self) -> int:
        return self.prompt.hash_tokens // BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class Progress:
    """A sequence reached one of its marks; ``finished`` at the last.

    ``new_tokens`` since the mark before, ``gap_s`` apart on average; None at the first token.
    """

    sequence: Sequence
    tokens: int
    at_s: float
    finished: bool
    new_tokens: int
    gap_s: float | None


def coarse_marks(output_tokens: int, chunks: int) -> Marks[int]:
    """Token counts at which an answer is reported in at most ``chunks`` (>= 2) pieces: the first
    token, then evenly over the rest.
    """
    if output_tokens <= chunks:
        return range(1, output_tokens + 1)
    rest = output_tokens - 1
    return tuple(1 + rest * piece // (chunks - 1) for piece in range(chunks))
