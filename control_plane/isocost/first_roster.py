"""When does a control plane that has just started know its fleet?

Agents come back one by one. A roster of the first few would take the others out of every Envoy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

#: An agent that lost its control plane tries again within 0.4 s, so that the next of several comes
#: within this; and a fleet is complete soon enough for fresh tables within a second.
QUIET_S = 0.3


class FirstRoster:
    """Holds the first roster back. Times are monotonic seconds."""

    def __init__(self, settle_s: float) -> None:
        """A fleet that still grows after ``settle_s`` is published as it is."""
        self._settle_s = settle_s
        self._started_s = math.inf
        self._names: frozenset[str] = frozenset()
        self._grown_s = math.inf
        self._complete = False

    def complete(self, sample_age_s: Mapping[str, float], now_s: float) -> bool:
        """Did the nodes known now, by name with the age of their samples, cease to grow in number?
        Once true it stays so.
        """
        if self._complete:
            return True
        self._started_s = min(self._started_s, now_s)
        new = sample_age_s.keys() - self._names
        if new:
            self._names |= new
            ages_s = [age_s for name in new if (age_s := sample_age_s[name]) < math.inf]
            self._grown_s = now_s - min(ages_s, default=0.0)
        quiet = bool(self._names) and now_s - self._grown_s >= QUIET_S
        self._complete = quiet or self.settled(now_s)
        return self._complete

    def settled(self, now_s: float) -> bool:
        """Is it so long since the start that a node that comes now is a new one?"""
        return now_s - self._started_s >= self._settle_s
