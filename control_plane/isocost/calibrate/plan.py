"""What a calibration sends: classes of requests, each held at a fixed concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isocost.errors import RejectedError

#: Answers of two lengths for each prompt: with one, every request would hold its place and its KV
#: cache as long as it computes its prompt often, and the causes could not be told apart.
ANSWERS = (128, 512)
#: Requests meant to be open on one card, EntropySettings.reference_concurrency: there capacity is
#: measured.
MIX_CONCURRENCY = 64
#: A pool that is fuller than this may preempt, and then prompts are computed twice.
POOL_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Shape:
    """A request as it is asked for."""

    input_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Load:
    """So many requests open at once, each worker sending the shapes in turn."""

    shapes: tuple[Shape, ...]
    concurrency: int


@dataclass(frozen=True, slots=True)
class Plan:
    """``seconds``: how long each load is measured at least."""

    lengths: tuple[int, ...] = (128, 512, 2048, 8192)
    concurrency: int = 16
    seconds: float = 6.0

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(Shape(length, answer) for length in self.lengths for answer in ANSWERS)

    def loads(self, pool_tokens: float | None, max_tokens: int | None) -> tuple[Load, ...]:
        """One load for each shape, and last the mix of all; fewer at once where the engine's KV
        pool would overflow. RejectedError: a request is too long for the engine.
        """
        longest = max(self.shapes, key=lambda shape: shape.tokens)
        if max_tokens is not None and longest.tokens > max_tokens:
            raise RejectedError(
                f"--lengths: {longest.input_tokens} and an answer of {longest.output_tokens} "
                f"are more than the {max_tokens} tokens that the engine takes"
            )
        loads = [
            Load((shape,), _fitting(self.concurrency, [shape], pool_tokens))
            for shape in self.shapes
        ]
        mix = _fitting(MIX_CONCURRENCY, self.shapes, pool_tokens)
        return (*loads, Load(self.shapes, mix))


def _fitting(wanted: int, shapes: Sequence[Shape], pool_tokens: float | None) -> int:
    if pool_tokens is None:
        return wanted
    mean = sum(shape.tokens for shape in shapes) / len(shapes)
    fitting = min(wanted, int(pool_tokens * POOL_SHARE / mean))
    if fitting < 1:
        raise RejectedError(
            f"--lengths: a request of {mean:.0f} tokens does not fit the engine's KV cache of "
            f"{pool_tokens:.0f}"
        )
    return fitting
