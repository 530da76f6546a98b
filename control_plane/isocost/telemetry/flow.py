"""What one device moved in the last seconds, from counters that begin anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Rates are means over this, as the entropy's net term has it.
WINDOW_S = 5.0

#: What a counter rose by from one value to the next in that many seconds; None: it is not known.
Rise = Callable[[int, int, float], int | None]


@dataclass(frozen=True, slots=True)
class Flow:
    """One device: its counters at the last reading, and the bytes moved at each reading of the
    window, counted from where they are known without a gap.

    ``rate`` is the last that was known, in bytes per second, at the time ``rated_s``.
    """

    counters: tuple[int, ...]
    moved: tuple[tuple[float, int], ...]
    readings: int = 1
    rate: float | None = None
    rated_s: float = 0.0

    def began(self, taken_s: float) -> bool:
        """That reading was its first."""
        return self.readings == 1 and self.moved[-1][0] == taken_s


def begin(counters: tuple[int, ...], taken_s: float) -> Flow:
    return Flow(counters, ((taken_s, 0),))


def advance(flow: Flow, counters: tuple[int, ...], taken_s: float, rise: Rise) -> Flow:
    """With one more reading. What is not known of the time since the last one is left out: the
    next rate is of the time after it.
    """
    last_s, total = flow.moved[-1]
    elapsed_s = taken_s - last_s
    readings = flow.readings + 1
    anew = Flow(counters, ((taken_s, 0),), readings, flow.rate, flow.rated_s)
    if elapsed_s > WINDOW_S or len(counters) != len(flow.counters):
        return anew
    for before, now in zip(flow.counters, counters, strict=True):
        rose = rise(before, now, elapsed_s)
        if rose is None:
            return anew
        total += rose
    first = 0
    while taken_s - flow.moved[first][0] > WINDOW_S:
        first += 1
    first_s, first_total = flow.moved[first]
    rate = (total - first_total) / (taken_s - first_s)
    return Flow(counters, (*flow.moved[first:], (taken_s, total)), readings, rate, taken_s)
