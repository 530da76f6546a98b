"""Arrivals with a given rate and burstiness: renewal processes in equilibrium.

The gaps between arrivals are independent, with mean 1/rate and the given coefficient of variation
(CV; 1 = Poisson, more = bursts). The process has run forever when the trace begins: the first
arrival ends a gap that was entered with a probability in proportion to its length, at a uniform
place. A process that began with an arrival would give (CV^2 - 1) / 2 requests too many, which is
162 for a CV of 18 (Cox, Renewal Theory, 1962, chapters 2 and 4).
"""

from __future__ import annotations

import math
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from isocost.errors import StartError

#: A load has at most this many requests: about 2 GB of them.
MAX_REQUESTS = 10_000_000
#: CVs up to this can be had; the burstiest client of ServeGen has 173.
MIN_CV, MAX_CV = 0.01, 1000.0

Floats = NDArray[np.float64]


class Law(Enum):
    """Distribution of the gaps."""

    GAMMA = "Gamma"
    WEIBULL = "Weibull"


def arrivals_s(
    law: Law, rate_per_s: float, cv: float, duration_s: float, rng: np.random.Generator
) -> Floats:
    """Ascending times in [0, duration_s); on average ``rate_per_s * duration_s`` of them.

    ``cv`` is from MIN_CV to MAX_CV. StartError: more than MAX_REQUESTS.
    """
    expected = rate_per_s * duration_s
    shape = 1 / cv**2 if law is Law.GAMMA else _weibull_shape(cv)
    scale_s = 1 / (rate_per_s * (shape if law is Law.GAMMA else math.gamma(1 + 1 / shape)))
    check_count(expected)
    # Enough for most draws; the loop makes up for the rest.
    size = math.ceil(expected + 4 * cv * math.sqrt(expected)) + 16
    times = [_first_s(law, shape, scale_s, rng)]
    while times[-1][-1] < duration_s:
        gaps = rng.gamma(shape, size=size) if law is Law.GAMMA else rng.weibull(shape, size=size)
        times.append(times[-1][-1] + np.cumsum(gaps * scale_s))
        check_count(sum(part.size for part in times) - size)
    result = np.concatenate(times)
    return result[result < duration_s]


def check_count(count: float) -> None:
    """StartError for a load that is too large to hold."""
    if count > MAX_REQUESTS:
        raise StartError(
            f"the load would have {count:,.0f} requests; at most {MAX_REQUESTS:,} are allowed"
        )


def _first_s(law: Law, shape: float, scale_s: float, rng: np.random.Generator) -> Floats:
    """The rest of a gap that is picked by its length: U times the length-biased gap.

    Gamma(k) becomes Gamma(k + 1); of Weibull(c), the c-th power becomes Gamma(1 + 1/c).
    """
    biased = (
        rng.gamma(shape + 1, size=1)
        if law is Law.GAMMA
        else rng.gamma(1 + 1 / shape, size=1) ** (1 / shape)
    )
    return biased * scale_s * rng.random(1)


def _weibull_shape(cv: float) -> float:
    """The shape c with CV^2 = G(1 + 2/c) / G(1 + 1/c)^2 - 1, which falls as c grows; by halving."""
    low, high = 0.05, 500.0
    target = math.log1p(cv**2)
    for _ in range(60):
        middle = math.sqrt(low * high)
        if math.lgamma(1 + 2 / middle) - 2 * math.lgamma(1 + 1 / middle) > target:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)
