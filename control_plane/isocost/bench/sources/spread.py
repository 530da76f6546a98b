"""Times that a trace names too coarsely, spread over what was rounded away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from isocost.bench.trace import TraceRequest


def spread(requests: Sequence[TraceRequest], step_s: float) -> tuple[TraceRequest, ...]:
    """Requests of the same time, evenly over ``step_s`` from then on, or less up to the next time.

    The i-th of n comes at ``time + i/n * step``; ``requests`` are in order of arrival.
    """
    batches = [list(batch) for _, batch in groupby(requests, key=lambda item: item.arrival_s)]
    starts_s = [batch[0].arrival_s for batch in batches]
    result: list[TraceRequest] = []
    for index, (start_s, batch) in enumerate(zip(starts_s, batches, strict=True)):
        window_s = step_s
        if index + 1 < len(starts_s):
            window_s = min(step_s, starts_s[index + 1] - start_s)
        result.extend(
            request
            if place == 0
            else replace(request, arrival_s=start_s + window_s * place / len(batch))
            for place, request in enumerate(batch)
        )
    return tuple(result)
