"""How long answers are, by user and by model: the expectation for the next one.

Bounded whatever the number of users: a table of buckets by the user's hash. Means forget by count,
not by time: a user who comes back tomorrow is expected to be as today.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isocost.observe.batch import Answer

Floats = NDArray[np.float64]

BUCKETS = 65_536
#: Models that are remembered; the filter only tells those of the roster.
MOST_MODELS = 1024

#: A mean follows its last few dozen answers.
_USER_MEMORY = 32.0
_MODEL_MEMORY = 1024.0

#: Steps of the user's byte per doubling: 4 % apart, finer than any answer can be foreseen.
_STEPS = 16
_LARGEST_BYTE = 255


@dataclass
class Sums:
    """Answers by user bucket, [65,536] each, and by model as (answers, tokens)."""

    user_count: Floats = field(default_factory=lambda: np.zeros(BUCKETS))
    user_tokens: Floats = field(default_factory=lambda: np.zeros(BUCKETS))
    models: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, answers: Sequence[Answer]) -> None:
        by_model: dict[str, list[int]] = {}
        for answer in answers:
            by_model.setdefault(answer.model, []).append(answer.output_tokens)
        for name, tokens in by_model.items():
            self._add_model(name, float(len(tokens)), float(sum(tokens)))
        some = [answer for answer in answers if answer.user_bucket]
        users = np.array([answer.user_bucket - 1 for answer in some], dtype=np.intp)
        np.add.at(self.user_count, users, 1.0)
        np.add.at(self.user_tokens, users, [float(answer.output_tokens) for answer in some])

    def plus(self, more: Sums) -> Sums:
        """Both together: means weighed by their counts."""
        both = Sums(
            self.user_count + more.user_count,
            self.user_tokens + more.user_tokens,
            dict(self.models),
        )
        for name, (count, tokens) in more.models.items():
            both._add_model(name, count, tokens)
        both.fade()
        return both

    def fade(self) -> None:
        """Give no mean more weight than its memory has: what comes next then counts enough."""
        part = np.minimum(_USER_MEMORY / np.maximum(self.user_count, _USER_MEMORY), 1.0)
        self.user_count *= part
        self.user_tokens *= part
        for name, (count, tokens) in self.models.items():
            left = min(_MODEL_MEMORY / max(count, _MODEL_MEMORY), 1.0)
            self.models[name] = count * left, tokens * left

    def _add_model(self, name: str, count: float, tokens: float) -> None:
        held = self.models.get(name, (0.0, 0.0))
        if name in self.models or len(self.models) < MOST_MODELS:
            self.models[name] = held[0] + count, held[1] + tokens


class History:
    """All answers that were heard of, and apart from them those that only this control plane
    knows.
    """

    def __init__(self) -> None:
        self._known = Sums()
        self._unshared = Sums()
        #: Answers so far: tells whether anything is new.
        self.answers = 0

    def add(self, answers: Sequence[Answer]) -> None:
        if answers:
            self._known.add(answers)
            self._unshared.add(answers)
            self.answers += len(answers)

    def known(self) -> Sums:
        """What is known now; to be read only."""
        self._known.fade()
        return self._known

    @property
    def mean_output_tokens(self) -> float | None:
        """Over all models; None = no answer was heard of."""
        return mean_output_tokens(self._known)

    def load(self, known: Sums) -> None:
        """What a former life of this control plane knew."""
        self._known = known.plus(self._unshared)

    def take_unshared(self) -> Sums:
        """What nobody else knows yet; the caller tells it, or puts it back."""
        taken, self._unshared = self._unshared, Sums()
        return taken

    def put_back(self, taken: Sums) -> None:
        self._unshared = taken.plus(self._unshared)

    def shared(self, known: Sums) -> None:
        """What all know together, with what was taken in it."""
        self._known = known.plus(self._unshared)


def mean_output_tokens(known: Sums) -> float | None:
    """Mean length of an answer over all models; None = none was heard of."""
    count = sum(held[0] for held in known.models.values())
    return sum(held[1] for held in known.models.values()) / count if count else None


def user_bytes(known: Sums) -> bytes:
    """The users' means, a byte each: 0 = not known, b = 2^((b - 1) / 16) tokens; empty if no user
    is known.
    """
    some = known.user_count > 0.0
    if not some.any():
        return b""
    mean = known.user_tokens[some] / known.user_count[some]
    result = np.zeros(BUCKETS, dtype=np.uint8)
    steps = np.rint(_STEPS * np.log2(np.maximum(mean, 1.0)))
    result[some] = np.minimum(1.0 + steps, _LARGEST_BYTE)
    return result.tobytes()


def rounded(tokens: float) -> float:
    """A mean in the steps of ``user_bytes``: what changes less is no news."""
    return float(2.0 ** (np.rint(_STEPS * np.log2(max(tokens, 1.0))) / _STEPS))
