"""The A:B:C mix: short questions, documents and long contexts at 65:30:5.

Up to 800 A, 120 B and 15 C a second were named for it. At the ratio C is the tightest: 300
requests/s in all are the most that keeps each kind within its own bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isocost.bench.sources.lengths import Lengths
from isocost.bench.sources.renewal import Law, arrivals_s
from isocost.bench.trace import TraceRequest


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request: its share of all, and the mean length of its prompts."""

    name: str
    share: float
    input_mean: float


KINDS = (Kind("A", 0.65, 327), Kind("B", 0.30, 4218), Kind("C", 0.05, 12842))
DEFAULT_RATE_PER_S = 10.0
#: Width of the prompts' lognormal lengths. The mix names means only; this is the width of the
#: Azure conversation trace of 2023, whose mean is 1154.7 and median 1020: sqrt(2 ln(mean/median)).
SIGMA = 0.498


def generate(
    answers: Sequence[TraceRequest], rate_per_s: float, duration_s: float, seed: int
) -> tuple[TraceRequest, ...]:
    """Poisson arrivals of all kinds; answers are as long as those of ``answers``, by chance."""
    rng = np.random.default_rng(seed)
    times = arrivals_s(Law.GAMMA, rate_per_s, 1.0, duration_s, rng)
    kinds = rng.choice(len(KINDS), size=times.size, p=[kind.share for kind in KINDS])
    inputs = np.empty(times.size, dtype=np.int64)
    for index, kind in enumerate(KINDS):
        own = kinds == index
        inputs[own] = Lengths.around(kind.input_mean, SIGMA).draw(int(own.sum()), rng)
    picks = rng.integers(len(answers), size=times.size)
    return tuple(
        TraceRequest(at_s, tokens, answers[pick].output_tokens, kind=KINDS[kind].name)
        for at_s, tokens, pick, kind in zip(
            times.tolist(), inputs.tolist(), picks.tolist(), kinds.tolist(), strict=True
        )
    )
