"""Counters between two scrapes: one that fell began anew."""

from __future__ import annotations

from isocost.model import ABSENT, Signal, measured


def fell(before: Signal, after: Signal) -> bool:
    """Was it set to zero in between? What is not known is no evidence."""
    return before.known and after.known and after.value < before.value


def increase(before: Signal, after: Signal) -> Signal:
    """What came between two scrapes, never negative; absent unless both are known. After a reset
    it is what was counted since then: the rest is lost.
    """
    if not (before.known and after.known):
        return ABSENT
    return measured(after.value if fell(before, after) else after.value - before.value)
