"""One signal of all nodes as arrays, and what stands in for the numbers that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isocost.model import Signal, SignalState

Floats = NDArray[np.float64]

#: A stale value loses 63 % of its distance to the fleet's median in this time: about the length
#: of one answer, after which the load that was measured has left the node.
STALE_DECAY_S = 5.0


@dataclass(frozen=True)
class Column:
    """One signal of n nodes: values, states (SignalState numbers) and ages in seconds, each [n]."""

    value: Floats
    state: NDArray[np.int8]
    age_s: Floats

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        known: NDArray[np.bool_] = (self.state == SignalState.MEASURED) | (
            self.state == SignalState.STALE
        )
        return known

    def of(self, rows: NDArray[np.intp]) -> Column:
        return Column(self.value[rows], self.state[rows], self.age_s[rows])

    def filled(self, default: float, decay_s: float = STALE_DECAY_S) -> Floats:
        """Values with the unknown replaced by the fleet's median, the stale decayed toward it:
        by 63 % in ``decay_s``.

        The median is that of the measured values, else of the stale ones, else ``default``.
        """
        measured = self.value[self.state == SignalState.MEASURED]
        basis = measured if measured.size else self.value[self.known]
        median = float(np.median(basis)) if basis.size else default
        keep = np.where(self.known, 1.0, 0.0)
        stale = self.state == SignalState.STALE
        keep[stale] = np.exp(-self.age_s[stale] / decay_s)
        result: Floats = median + (np.where(self.known, self.value, median) - median) * keep
        return result


def column(signals: Sequence[Signal]) -> Column:
    """Signals as a column. A value that is not finite is no measurement: it becomes absent."""
    value = np.array([signal.value for signal in signals], dtype=np.float64)
    state = np.array([signal.state for signal in signals], dtype=np.int8)
    age_s = np.array([signal.age_s for signal in signals], dtype=np.float64)
    broken = ~np.isfinite(value)
    state[broken] = SignalState.ABSENT
    value[broken] = 0.0
    return Column(value, state, age_s)


def derived(value: Floats, *sources: Column) -> Column:
    """A column computed from others: known where all of them are, as stale as the worst."""
    known = np.ones(value.shape, dtype=np.bool_)
    stale = np.zeros(value.shape, dtype=np.bool_)
    age_s = np.zeros(value.shape, dtype=np.float64)
    for source in sources:
        known &= source.known
        stale |= source.state == SignalState.STALE
        age_s = np.maximum(age_s, source.age_s)
    state = np.where(stale, SignalState.STALE, SignalState.MEASURED)
    state = np.where(known, state, SignalState.ABSENT).astype(np.int8)
    return Column(np.where(known, value, 0.0), state, age_s)


def combine(signals: Iterable[Signal], how: str) -> Signal:
    """One signal from those of several GPUs: 'sum', 'max' or 'mean'.

    Parts that are unsupported drop out; one absent part makes the whole absent (a sum that lacks
    a part is not a sum). The result is as old as its oldest part.
    """
    parts = [signal for signal in signals if signal.state != SignalState.UNSUPPORTED]
    if not parts:
        return Signal(SignalState.UNSUPPORTED)
    if not all(part.known for part in parts):
        return Signal(SignalState.ABSENT)
    values = [part.value for part in parts]
    if how == "max":
        value = max(values)
    elif how == "sum":
        value = sum(values)
    else:
        value = sum(values) / len(values)
    stale = any(part.state == SignalState.STALE for part in parts)
    state = SignalState.STALE if stale else SignalState.MEASURED
    return Signal(state, value, max(part.age_s for part in parts))
