"""What the engine answers of the mix of all shapes, and how well the fit foresaw its speed."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.calibrate.causes import Causes
from isocost.calibrate.levels import levels
from isocost.calibrate.measure import Measured


@dataclass(frozen=True, slots=True)
class Capacity:
    """At ``concurrency`` requests at once. ``expected_token_s`` is the fit's, which has not seen
    the mix.
    """

    concurrency: int
    requests_per_s: float
    token_s: float
    expected_token_s: float


def find_capacity(mix: Measured, causes: Causes) -> Capacity:
    assert mix.load is not None
    steps = sequence_steps = expected_s = 0.0
    for window in mix.windows:
        level = levels(window, mix.flights, causes.alone)
        steps += window.tokens
        sequence_steps += level.sequences * window.tokens
        expected_s += causes.token_s(level) * window.tokens
    shapes = mix.load.shapes
    answer = sum(shape.output_tokens - 1 for shape in shapes) / len(shapes)
    return Capacity(
        concurrency=mix.load.concurrency,
        requests_per_s=sequence_steps / answer / mix.measured_s,
        token_s=mix.token_s,
        expected_token_s=expected_s / steps,
    )
