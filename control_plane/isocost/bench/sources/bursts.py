"""Bursts as BurstGPT found them: Gamma gaps between arrivals.

Wang et al., "BurstGPT: A Real-world Workload Dataset to Optimize LLM Serving Systems", models
arrivals as a Gamma renewal process; its generator's shape is 0.5, which is a CV of 1.41.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isocost.bench.sources.renewal import Law, arrivals_s
from isocost.bench.trace import TraceRequest

DEFAULT_CV = 0.5**-0.5
DEFAULT_RATE_PER_S = 10.0


def generate(
    lengths: Sequence[TraceRequest], rate_per_s: float, cv: float, duration_s: float, seed: int
) -> tuple[TraceRequest, ...]:
    """Gamma arrivals; each request has the two lengths of one of ``lengths``, drawn by chance."""
    rng = np.random.default_rng(seed)
    times = arrivals_s(Law.GAMMA, rate_per_s, cv, duration_s, rng)
    picks = rng.integers(len(lengths), size=times.size)
    return tuple(
        TraceRequest(at_s, lengths[pick].input_tokens, lengths[pick].output_tokens)
        for at_s, pick in zip(times.tolist(), picks.tolist(), strict=True)
    )
