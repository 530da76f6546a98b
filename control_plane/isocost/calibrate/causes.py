"""The fit: what a probe's time per token is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isocost.calibrate.fit import Fit, fit
from isocost.calibrate.levels import Alone, Levels, between_prompts, levels
from isocost.calibrate.measure import Measured
from isocost.errors import FitError

#: The error of each cause may be this part of all that the loads add to the probe's time.
MAX_ERROR_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Causes:
    """Seconds that each adds to a step of the engine: nothing (``step_s``), a sequence that
    decodes, a token in the KV cache; and a whole prompt by its length, once.
    """

    fit: Fit
    lengths: tuple[int, ...]
    alone: Alone

    @property
    def step_s(self) -> float:
        return float(self.fit.coefficients[0])

    @property
    def sequence_s(self) -> float:
        return float(self.fit.coefficients[1])

    @property
    def kv_token_s(self) -> float:
        return float(self.fit.coefficients[2])

    def prompt_s(self, length: int) -> float:
        return float(self.fit.coefficients[3 + self.lengths.index(length)])

    def token_s(self, at: Levels) -> float:
        """The time per token that a probe would have."""
        return float(self.fit.coefficients @ _row(at, self.lengths))


def find_causes(measured: Sequence[Measured], lengths: Sequence[int]) -> Causes:
    """From the engine alone and under each load. FitError: collinear, or too noisy."""
    rows, target = [], []
    alone = _alone(measured)
    for one in measured:
        for whole in one.windows:
            window = between_prompts(whole, one.flights, alone)
            rows.append(_row(levels(window, one.flights, alone), lengths))
            target.append(window.token_s)
    names = ["a step", "open requests", "KV cache", *(f"prompts of {n}" for n in lengths)]
    found = fit(names, np.array(rows), np.array(target))
    _require_precise(found, np.mean(rows, axis=0))
    return Causes(found, tuple(lengths), alone)


def _alone(measured: Sequence[Measured]) -> Alone:
    probes = [probe for one in measured if one.load is None for probe in one.probes]
    return Alone(
        step_s=min(one.token_s for one in measured if one.load is None),
        first_token_s=min(probe.pieces[0] - probe.sent_s for probe in probes),
    )


def _row(at: Levels, lengths: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(
        [1.0, at.sequences, at.kv_tokens, *(at.prompts.get(length, 0.0) for length in lengths)]
    )


def _require_precise(found: Fit, mean: np.ndarray) -> None:
    rise_s = float(found.coefficients[1:] @ mean[1:])
    groups = {"open requests": [1], "KV cache": [2], "prompts": list(range(3, len(mean)))}
    for name, columns in groups.items():
        weights = np.zeros_like(mean)
        weights[columns] = mean[columns]
        error_s = found.error(weights)
        if error_s > MAX_ERROR_SHARE * rise_s:
            raise FitError(
                f"too noisy: what {name} cost is known to {error_s * 1e6:.0f} us a token of the "
                f"{rise_s * 1e6:.0f} us that the loads add; measure longer (--seconds), or with "
                "more requests at once (--concurrency)"
            )
