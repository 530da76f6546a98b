"""What load a node sustains, found by running its engine saturated in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from isocost.bench.load import load
from isocost.bench.trace import TraceRequest
from isocost.fake.engine import Engine
from isocost.fake.sequence import Prompt, coarse_marks

#: Enough over the capacity that requests always wait, little enough that they come one by one.
OVERLOAD = 1.5
#: More than ten times what an engine with vLLM's settings runs at once.
MIX_REQUESTS = 3000
_GENERATED_S = 300.0


def mix_of(source: str) -> list[tuple[Prompt, int]]:
    """Prompts and output tokens of a trace, enough of them to measure a capacity."""
    if source == "abc":
        requests = load(source, duration_s=_GENERATED_S, rate=MIX_REQUESTS / _GENERATED_S)
    else:
        requests = load(source)[:MIX_REQUESTS]
    return [(prompt_of(item), item.output_tokens) for item in requests]


def prompt_of(item: TraceRequest) -> Prompt:
    whole_blocks = item.blocks[: item.input_tokens // item.block_tokens]
    return Prompt(item.input_tokens, whole_blocks, item.block_tokens)


def capacity_per_s(start: Callable[[], Engine], requests: Sequence[tuple[Prompt, int]]) -> float:
    """Requests (prompt, output tokens) a second that an engine completes while more always wait.

    ``start`` gives a fresh engine. Take at least ten times as many requests as run at once: of the
    completions the middle half counts, without the filling and the emptying. ValueError: fewer than
    eight requests, one that never fits, or so few that the middle half ends all at once.
    """
    if len(requests) < 8:
        raise ValueError(f"{len(requests)} requests are too few to measure a capacity")
    # All at once they would stay in step with each other, as they never do: that is only a guess.
    at_once_per_s = _completed_per_s(start(), requests, math.inf)
    return _completed_per_s(start(), requests, OVERLOAD * at_once_per_s)


def _completed_per_s(
    engine: Engine, requests: Sequence[tuple[Prompt, int]], offered_per_s: float
) -> float:
    ends_s: list[float] = []
    for number, (prompt, output_tokens) in enumerate(requests):
        now_s = number / offered_per_s
        ends_s += (p.at_s for p in engine.advance(now_s) if p.finished)
        engine.submit(now_s, prompt, coarse_marks(output_tokens, 2))
    while (wake_s := engine.next_wake_s()) is not None:
        ends_s += (p.at_s for p in engine.advance(wake_s) if p.finished)
    first, last = len(ends_s) // 4, len(ends_s) * 3 // 4
    if ends_s[last] == ends_s[first]:
        raise ValueError(f"{len(requests)} requests are too few: they run and end all together")
    return (last - first) / (ends_s[last] - ends_s[first])
