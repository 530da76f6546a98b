"""Several targets in one run: rounds in which each gets the same part of the trace, in turn.

What disturbs a machine for a while (another program, heat) then meets all targets alike, and a
round's figures can be compared in pairs. One target at a time, because targets may share a fleet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from isocost.bench.result import RequestResult
from isocost.bench.target import Target
from isocost.bench.trace import TraceRequest


@dataclass(frozen=True, slots=True)
class Slice:
    """A round's part of the trace: the requests from ``start_s`` to ``end_s`` of the trace."""

    start_s: float
    end_s: float
    requests: tuple[TraceRequest, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One target's turn in one round."""

    round: int
    target: Target
    slice: Slice


@dataclass(frozen=True, slots=True)
class RoundResults:
    """What one turn gave; times of the results are the trace's."""

    round: int
    target: str
    results: tuple[RequestResult, ...]


def slices(requests: Sequence[TraceRequest], rounds: int) -> tuple[Slice, ...]:
    """Cut a trace into ``rounds`` parts with equally many requests (one more in some).

    By number and not by time: a round of a bursty trace must not be empty.
    """
    cuts = [len(requests) * index // rounds for index in range(rounds + 1)]
    starts_s = [0.0, *(requests[cut].arrival_s for cut in cuts[1:-1]), requests[-1].arrival_s]
    return tuple(
        Slice(starts_s[index], starts_s[index + 1], tuple(requests[cuts[index] : cuts[index + 1]]))
        for index in range(rounds)
    )


def schedule(targets: Sequence[Target], parts: Sequence[Slice], seed: int) -> tuple[Turn, ...]:
    """Every target's turn in every round, in an order that ``seed`` shuffles anew each round."""
    order = random.Random(seed)
    return tuple(
        Turn(number, target, part)
        for number, part in enumerate(parts)
        for target in order.sample(list(targets), len(targets))
    )
