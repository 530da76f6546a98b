"""What requests hold of the KV pool, by the engine's own page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from isocost.calibrate.entropy import Estimate
from isocost.calibrate.fit import fit
from isocost.calibrate.flight import Flight
from isocost.calibrate.measure import Measured
from isocost.calibrate.nnls import Floats
from isocost.model import EngineSample


@dataclass(frozen=True, slots=True)
class Memory:
    """Tokens of the pool that each token of a prompt and of an answer takes, and each request
    beside (the rest of its last block).
    """

    input_token: Estimate
    output_token: Estimate
    request: Estimate


def find_memory(measured: Sequence[Measured]) -> Memory | None:
    """None: the engine does not tell its pool. FitError: too few samples, or collinear."""
    rows, target = [], []
    for one in measured:
        for at_s, sample in one.samples:
            held = _held_tokens(sample)
            if held is None:
                continue
            row = _row(at_s, [*one.flights, *one.probes], one.token_s)
            if held > 0 and row is not None:
                rows.append(row)
                target.append(held)
    if not any(_held_tokens(sample) is not None for one in measured for _, sample in one.samples):
        return None
    matrix = np.array(rows).reshape(-1, 3)
    found = fit(("input tokens", "output tokens", "requests"), matrix, np.array(target))
    parts = zip(found.coefficients, np.eye(3), strict=True)
    return Memory(*(Estimate(float(value), found.error(unit)) for value, unit in parts))


def _held_tokens(sample: EngineSample) -> float | None:
    usage, pool = sample.kv_usage, sample.kv_pool_tokens
    return usage.value * pool.value if usage.known and pool.known else None


def _row(at_s: float, flights: Iterable[Flight], token_s: float) -> Floats | None:
    """Input tokens, output tokens and requests that were open; None while a prompt is computed,
    for nobody sees how far.
    """
    row = np.zeros(3)
    for flight in flights:
        if flight.end_s is None or not flight.sent_s <= at_s < flight.end_s:
            continue
        first_s = flight.first_token_s
        if first_s is None or first_s > at_s:
            return None
        said = (at_s - first_s) * flight.tokens_per_s(1.0 / token_s)
        row += (flight.prompt_tokens, said, 1.0)
    return row
