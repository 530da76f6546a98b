"""How old the open requests of each node are together, and whose word on it counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.model import SignalState
from isocost.score.columns import Column, Floats
from isocost.score.telemetry import FleetTelemetry

#: A clock that is further off is not believed. Less is nothing beside the seconds that a request is
#: open; chrony keeps clocks within a few milliseconds, and the way of a report takes some more.
CLOCK_SKEW_S = 0.1


@dataclass(frozen=True)
class OpenAges:
    """``sum_s`` [n] is the sum of the open requests' ages; ``told`` is what the node says of it,
    known where that counts. ``skewed`` [n]: its clock is off.
    """

    sum_s: Floats
    told: Column
    skewed: NDArray[np.bool_]


def open_ages(telemetry: FleetTelemetry, clock_offset_s: Floats, seen_s_sum: Floats) -> OpenAges:
    """A node that tells the age of its work knows it best, also of requests that came past the
    gateways. But its ages are by its own clock, and one that is wrong makes a node look idle (the
    outage in document A): then the gateways' ``seen_s_sum`` [n] counts, which no node's clock
    touches. ``clock_offset_s`` [n] is each clock less this machine's, NaN = not known.
    """
    age, running = telemetry.kv_cache_age_s, telemetry.running
    # A comparison with NaN is false: a clock that nobody knows is not believed either.
    believed = np.abs(clock_offset_s) <= CLOCK_SKEW_S
    counts = (
        believed & (age.state == SignalState.MEASURED) & (running.state == SignalState.MEASURED)
    )
    told = Column(
        np.where(counts, age.value * running.value, 0.0),
        np.where(counts, SignalState.MEASURED, SignalState.ABSENT).astype(np.int8),
        np.where(counts, age.age_s, 0.0),
    )
    skewed = np.abs(clock_offset_s) > CLOCK_SKEW_S
    return OpenAges(np.where(counts, told.value, seen_s_sum), told, skewed)
