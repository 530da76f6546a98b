"""Counters between two scrapes: one that fell began anew."""

from __future__ import annotations

from isocost.model import Signal


def fell(before: Signal, after: Signal) -> bool:
    """Was it set to zero in between? What is not known is no evidence."""
    return before.known and after.known and after.value < before.value
