"""What the tests of the engine share."""

from __future__ import annotations

from isocost.fake.engine import Engine
from isocost.fake.sequence import Prompt, Sequence, coarse_marks
from isocost.fake.speeds import Speed

#: Binary fractions, so that sums of step times are exact.
SPEED = Speed(
    frontend_s=0.0,
    step_s=2.0**-7,
    sequence_s=2.0**-14,
    context_s=2.0**-24,
    token_s=2.0**-15,
    pair_s=2.0**-30,
    hidden_s=2.0**-10,
)


def submit(
    to: Engine,
    now_s: float,
    prompt: int | Prompt,
    output: int,
    chunks: int = 8,
    delay_s: float = 0.0,
) -> Sequence:
    prompt = Prompt(prompt) if isinstance(prompt, int) else prompt
    return to.submit(now_s, prompt, coarse_marks(output, chunks), delay_s)


def conversation(name: int, tokens: int) -> Prompt:
    """A prompt whose pieces are those of every other prompt of that name, as far as both go."""
    return Prompt(tokens, tuple(name * 100_000 + piece for piece in range(tokens // 16)))
