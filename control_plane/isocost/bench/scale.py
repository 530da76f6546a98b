"""Faster, denser, shorter: the same load at another rate."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from isocost.bench.sources.renewal import check_count
from isocost.bench.trace import TraceRequest
from isocost.errors import StartError

#: Blocks in this part of the requests (and in ten of them) belong to everybody: system prompts,
#: tools. In Mooncake's traces those are in 15 to 100 %, the longest conversations in under 1 %.
COMMON_PART = 0.05
_COMMON_REQUESTS = 10


def scale(
    requests: Sequence[TraceRequest], time_scale: float, rate_scale: float, seed: int
) -> tuple[TraceRequest, ...]:
    """``time_scale`` times as fast, and ``rate_scale`` times as many requests in the same time.

    Times are divided by ``time_scale``. A ``rate_scale`` of 2.3 sends every request twice, and a
    third time with probability 0.3; 0.4 keeps it with probability 0.4. The first is the request
    itself; each further one comes later by a random part of the mean gap (before scaling by
    ``rate_scale``), so the pattern stays and nothing moves in step. It is another user's: its
    user's name ends in ``#2`` and so on, and its blocks are its own except the common ones.
    """
    if time_scale != 1:
        requests = [replace(item, arrival_s=item.arrival_s / time_scale) for item in requests]
    if rate_scale != 1 and requests:
        requests = _multiplied(requests, rate_scale, seed)
    return tuple(requests)


def at_rate(requests: Sequence[TraceRequest], rate_per_s: float) -> tuple[TraceRequest, ...]:
    """The same requests squeezed or stretched to that mean rate.

    n requests have n - 1 gaps: the last one arrives at (n - 1) / rate. StartError if all arrive at
    once.
    """
    last_s = requests[-1].arrival_s
    if last_s == 0:
        raise StartError("rate: the trace's requests all arrive at once, so it cannot be set")
    wanted_last_s = (len(requests) - 1) / rate_per_s
    return tuple(
        replace(item, arrival_s=item.arrival_s / last_s * wanted_last_s) for item in requests
    )


def cut(requests: Sequence[TraceRequest], duration_s: float) -> tuple[TraceRequest, ...]:
    """What arrives before ``duration_s``."""
    return tuple(request for request in requests if request.arrival_s < duration_s)


def _multiplied(
    requests: Sequence[TraceRequest], rate_scale: float, seed: int
) -> list[TraceRequest]:
    check_count(len(requests) * rate_scale)
    rng = random.Random(seed)
    gap_s = requests[-1].arrival_s / len(requests)
    ids = [block for request in requests for block in set(request.blocks)]
    needed = max(_COMMON_REQUESTS, COMMON_PART * len(requests))
    common = frozenset(block for block, count in Counter(ids).items() if count >= needed)
    # Copies' ids lie beyond the trace's own, each copy's in a range of its own.
    span = max(ids, default=0) - min(ids, default=0) + 1
    result: list[TraceRequest] = []
    for request in requests:
        copies = int(rate_scale) + (rng.random() < rate_scale % 1)
        if copies:
            result.append(request)
        for copy in range(1, copies):
            result.append(
                replace(
                    request,
                    arrival_s=request.arrival_s + rng.random() * gap_s,
                    user=None if request.user is None else f"{request.user}#{copy + 1}",
                    blocks=tuple(
                        block if block in common else block + copy * span
                        for block in request.blocks
                    ),
                )
            )
    result.sort(key=lambda request: request.arrival_s)
    return result
