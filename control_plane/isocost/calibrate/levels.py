"""What was open while a probe's tokens came, as means over the engine's steps.

Every sequence that decodes gets one token a step, so the probe's tokens count the steps.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isocost.calibrate.flight import Flight

#: Of a prompt that takes no time beyond its step.
_INSTANT_S = 1e-6


@dataclass(frozen=True, slots=True)
class Window:
    """From a probe's first token to its last; ``tokens`` after the first, which came in ``pieces``
    of the same size.
    """

    pieces: tuple[float, ...]
    tokens: int

    @property
    def start_s(self) -> float:
        return self.pieces[0]

    @property
    def end_s(self) -> float:
        return self.pieces[-1]

    @property
    def token_s(self) -> float:
        return (self.end_s - self.start_s) / self.tokens

    @property
    def one_by_one(self) -> bool:
        """The engine sends each token as a piece of its own."""
        return len(self.pieces) == self.tokens + 1

    def steps(self, until_s: float) -> float:
        """Since its start; none before it and none after it."""
        counts = np.linspace(0.0, self.tokens, len(self.pieces))
        return float(np.interp(until_s, self.pieces, counts))


@dataclass(frozen=True, slots=True)
class Levels:
    """Means over the steps of a window: sequences that decode, their tokens in the KV cache, and
    prompts that ended by their length.
    """

    sequences: float
    kv_tokens: float
    prompts: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Alone:
    """The engine without load: its step, and the wait for a short prompt's first token."""

    step_s: float
    first_token_s: float


def between_prompts(window: Window, flights: Sequence[Flight], alone: Alone) -> Window:
    """The window from one prompt's end to another's: at any other moment one may be half done, and
    nobody sees how far. The same window where that would leave less than half of it, or where the
    probe's tokens did not come one by one.
    """
    if not window.one_by_one:
        return window
    firsts = np.array([flight.pieces[0] for flight in flights if flight.pieces])
    ends = [
        place
        for place, at_s in enumerate(window.pieces)
        if (np.abs(firsts - at_s) <= alone.step_s / 2).any()
    ]
    if not ends or 2 * (ends[-1] - ends[0]) < window.tokens:
        return window
    return Window(window.pieces[ends[0] : ends[-1] + 1], ends[-1] - ends[0])


def levels(window: Window, flights: Sequence[Flight], alone: Alone) -> Levels:
    # What arrives within half a step came in one step, though by connections of its own.
    same_s = alone.step_s / 2
    prompts_s = _prompts_s(flights, alone)
    sequence_steps = kv_steps = 0.0
    prompts: dict[int, float] = {}
    for flight in flights:
        first_s = flight.first_token_s
        if first_s is None:
            continue
        # A long prompt is computed in several steps, the last of which ends with its first token.
        length = flight.shape.input_tokens
        end_s, prompt_s = first_s - same_s, prompts_s[length]
        inside_s = min(end_s, window.end_s) - max(end_s - prompt_s, window.start_s)
        if inside_s > 0:
            prompts[length] = prompts.get(length, 0.0) + inside_s / prompt_s
        steps, said = _steps(window, flight, first_s)
        sequence_steps += steps
        # In a step it reads its prompt, what it said before, and the token that it gets.
        kv_steps += steps * (flight.prompt_tokens + said + (steps + 1) / 2)
    return Levels(
        sequences=sequence_steps / window.tokens,
        kv_tokens=kv_steps / window.tokens,
        prompts={length: count / window.tokens for length, count in prompts.items()},
    )


def _steps(window: Window, flight: Flight, first_s: float) -> tuple[float, float]:
    """In how many of the window's steps it decodes, and its tokens after the first until then."""
    last_s = flight.last_token_s
    until_s = flight.end_s if last_s is None else last_s
    steps = window.steps(window.end_s if until_s is None else until_s) - window.steps(first_s)
    if first_s >= window.start_s:
        return steps, 0.0
    return steps, _said(window, flight)


def _said(window: Window, flight: Flight) -> float:
    """Its tokens after the first that came before the window."""
    if window.one_by_one:
        return float(np.searchsorted(flight.pieces, window.start_s, side="right") - 1)
    if flight.output_tokens is None:
        return (window.start_s - flight.pieces[0]) / window.token_s
    counts = np.linspace(0.0, flight.output_tokens - 1.0, len(flight.pieces))
    return float(np.interp(window.start_s, flight.pieces, counts))


def _prompts_s(flights: Sequence[Flight], alone: Alone) -> dict[int, float]:
    """How long a prompt is computed, by its length, on average: from when it is there, and the one
    before it is done, to its first token, beyond what a short one needs.
    """
    taken_s: dict[int, list[float]] = {}
    before_s = -math.inf
    answered = [flight for flight in flights if flight.pieces]
    for flight in sorted(answered, key=lambda one: one.pieces[0]):
        first_s = flight.pieces[0]
        begin_s = max(flight.sent_s + alone.first_token_s, before_s)
        taken_s.setdefault(flight.shape.input_tokens, []).append(first_s - begin_s)
        before_s = first_s
    return {
        # Some wait for another's step, and some share a step.
        length: max(statistics.median(times), _INSTANT_S)
        for length, times in taken_s.items()
    }
