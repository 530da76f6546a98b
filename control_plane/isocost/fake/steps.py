"""Equal steps of an engine in closed form: their ends, without taking them one by one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from isocost.fake.sequence import Sequence


@dataclass(slots=True)
class StepRun:
    """The step in progress and those after it while nobody enters or leaves.

    The k-th of them (from 0) lasts ``first_s + k * growth_s``: every decoding sequence reads one
    more KV token in each.
    """

    start_s: float
    decoding: int
    first_s: float = 0.0
    growth_s: float = 0.0
    #: Sequences that the first step computes a chunk of the prompt of; and of each chunk the new
    #: tokens and those before them.
    prefill: list[Sequence] = field(default_factory=list)
    chunks: list[tuple[int, int]] = field(default_factory=list)

    def end_s(self, count: int) -> float:
        """When the first ``count`` steps are done: an arithmetic series."""
        return self.start_s + count * self.first_s + self.growth_s * (count * (count - 1) / 2)

    def done_by(self, now_s: float) -> int:
        """How many steps have ended at that time."""
        count = int(self._steps_in(now_s - self.start_s))
        # The root is good to rounding; the ends themselves decide.
        while count > 0 and self.end_s(count) > now_s:
            count -= 1
        while self.end_s(count + 1) <= now_s:
            count += 1
        return count

    def step_at(self, at_s: float) -> int:
        """Steps up to the first that ends at ``at_s`` or later; at least one."""
        done = self.done_by(at_s)
        return max(done if self.end_s(done) == at_s else done + 1, 1)

    def stretch(self, now_s: float, ratio: float) -> None:
        """Take ``ratio`` times as long from now on, for the rest of the first step too."""
        self.start_s = now_s - (now_s - self.start_s) * ratio
        self.first_s *= ratio
        self.growth_s *= ratio

    def _steps_in(self, elapsed_s: float) -> float:
        """The root of end_s = elapsed, in the form that also holds without growth."""
        if elapsed_s <= 0.0:
            return 0.0
        linear = self.first_s - self.growth_s / 2
        return 2 * elapsed_s / (linear + math.sqrt(linear**2 + 2 * self.growth_s * elapsed_s))
