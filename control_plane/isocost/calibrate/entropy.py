"""From what each cause costs to the coefficients of the control plane's entropy.

The entropy of a node is to rise as its requests slow each other down. Its three terms are not the
three causes: the KV cache is both; the age term stands for the open requests, which cost the same
at any age, and the network term for the prompts, which come over the network. So each coefficient
is what its cause costs in one request of every shape, over what its term adds up to in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isocost.calibrate.causes import Causes
from isocost.calibrate.measure import Measured
from isocost.calibrate.nnls import Floats
from isocost.calibrate.plan import Shape
from isocost.config import EntropySettings
from isocost.score.entropy import NET_WINDOW_S


@dataclass(frozen=True, slots=True)
class Estimate:
    """``error`` is one standard error."""

    value: float
    error: float


@dataclass(frozen=True, slots=True)
class EntropyCoefficients:
    """Scaled so that the measured requests have the entropy on average that they have with the
    defaults: thresholds and entropies set by hand keep their meaning.
    """

    kv_per_gb: Estimate
    age_per_s: Estimate
    net_per_mb: Estimate
    waiting_request: float
    reference_concurrency: float


@dataclass(frozen=True, slots=True)
class Life:
    """One request of a shape under its load, on average. ``step_s`` is the probe's time per
    token, ``open_s`` from its sending to its end.
    """

    shape: Shape
    step_s: float
    sequence_steps: float
    kv_token_steps: float
    open_s: float
    moved_mb: float


def lives(measured: Sequence[Measured]) -> list[Life]:
    """Of each load of one shape."""
    flights = [flight for one in measured for flight in one.flights]
    answered = [flight for flight in flights if flight.output_tokens]
    tokens = sum(flight.output_tokens or 0 for flight in answered)
    answer_bytes = sum(flight.received_bytes for flight in answered) / tokens
    return [_life(one, answer_bytes) for one in measured]


def _life(measured: Measured, answer_bytes: float) -> Life:
    assert measured.load is not None
    shape = measured.load.shapes[0]
    # The first of each worker came all at once and waited for each other.
    later = [f for f in measured.flights[measured.load.concurrency :] if f.first_token_s]
    seen = later or measured.flights
    waits = [f.first_token_s - f.sent_s for f in seen if f.first_token_s is not None]
    steps = shape.output_tokens - 1.0
    prompt = float(np.mean([flight.prompt_tokens for flight in measured.flights]))
    sent_bytes = float(np.mean([flight.sent_bytes for flight in measured.flights]))
    return Life(
        shape=shape,
        step_s=measured.token_s,
        sequence_steps=steps,
        kv_token_steps=steps * (prompt + shape.output_tokens / 2),
        open_s=float(np.mean(waits)) + steps * measured.token_s,
        moved_mb=(sent_bytes + answer_bytes * shape.output_tokens) / 1e6,
    )


def entropy_coefficients(
    causes: Causes, requests: Sequence[Life], kv_bytes_per_token: float, defaults: EntropySettings
) -> EntropyCoefficients:
    """What the causes cost and what the terms are, summed over one request of each shape in
    seconds of their lives.
    """
    reference = defaults.reference_concurrency
    gb = kv_bytes_per_token / 1e9
    kv_gb_s = sum(life.kv_token_steps * life.step_s for life in requests) * gb
    age_s2 = sum(life.open_s**2 / 2 for life in requests) / reference
    net_mb_s = sum(life.moved_mb for life in requests) * NET_WINDOW_S / reference
    sequence, kv, prompt = _costs(causes, requests)
    costs = causes.fit.coefficients
    whole = float((sequence + kv + prompt) @ costs)
    scale = (
        defaults.kv_per_gb * kv_gb_s + defaults.age_per_s * age_s2 + defaults.net_per_mb * net_mb_s
    ) / whole

    def estimate(cost: Floats, term: float) -> Estimate:
        part = scale / term
        return Estimate(float(cost @ costs) * part, causes.fit.error(cost) * part)

    return EntropyCoefficients(
        kv_per_gb=estimate(kv, kv_gb_s),
        age_per_s=estimate(sequence, age_s2),
        net_per_mb=estimate(prompt, net_mb_s),
        waiting_request=scale * whole / sum(life.open_s for life in requests),
        reference_concurrency=reference,
    )


def _costs(causes: Causes, requests: Sequence[Life]) -> tuple[Floats, Floats, Floats]:
    """How often each coefficient of the fit is paid for sequences, KV cache and prompts: a rise of
    the time per token, times the time that it lasts.
    """
    sequence, kv, prompt = (np.zeros_like(causes.fit.coefficients) for _ in range(3))
    for life in requests:
        sequence[1] += life.sequence_steps * life.step_s
        kv[2] += life.kv_token_steps * life.step_s
        prompt[3 + causes.lengths.index(life.shape.input_tokens)] += life.step_s
    return sequence, kv, prompt
