"""Lengths of prompts and answers: lognormal, as a mean and a 99th percentile make them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: The context of today's models; draws above it are cut to it.
MAX_DRAWN_TOKENS = 131_072
_Z99 = 2.3263478740408408


@dataclass(frozen=True, slots=True)
class Lengths:
    """A lognormal distribution: exp of a normal one with ``mu`` and ``sigma``, in tokens."""

    mu: float
    sigma: float

    @staticmethod
    def fitted(mean: float, p99: float) -> Lengths:
        """With this mean, and this p99 as far as a lognormal can have both.

        ln(p99/mean) = z sigma - sigma^2/2, z = 2.326; the smaller root. It is largest at sigma = z,
        p99 = 15 mean: beyond that sigma stays z. Up to p99 = mean every length is the mean.
        """
        spread = math.log(p99 / mean) if p99 > mean else 0.0
        sigma = _Z99 - math.sqrt(max(0.0, _Z99**2 - 2 * spread))
        return Lengths.around(mean, sigma)

    @staticmethod
    def around(mean: float, sigma: float) -> Lengths:
        """With this mean: mu = ln(mean) - sigma^2/2."""
        return Lengths(math.log(mean) - sigma**2 / 2, sigma)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Whole numbers from 1 to MAX_DRAWN_TOKENS."""
        drawn = np.rint(rng.lognormal(self.mu, self.sigma, count))
        return np.clip(drawn, 1, MAX_DRAWN_TOKENS).astype(np.int64)
