"""Waits between tries: longer after each failure, and different for each process."""

from __future__ import annotations

import random


class Retry:
    """From ``least_s``, twice as long after each failure in a row, up to ``most_s``; each wait is
    drawn from its upper half, so that processes which failed together do not return together.
    """

    def __init__(self, least_s: float, most_s: float, rng: random.Random) -> None:
        self._least_s = least_s
        self._most_s = most_s
        self._rng = rng
        self._limit_s = least_s

    def next_s(self) -> float:
        limit_s = self._limit_s
        self._limit_s = min(2 * limit_s, self._most_s)
        return self._rng.uniform(limit_s / 2, limit_s)

    def succeeded(self) -> None:
        self._limit_s = self._least_s
