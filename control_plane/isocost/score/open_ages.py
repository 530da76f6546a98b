"""How old the open requests of each node are together, and whose word on it counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.model import SignalState
from isocost.score.columns import Column, Floats
from isocost.score.telemetry import FleetTelemetry


@dataclass(frozen=True)
class OpenAges:
    """``sum_s`` [n] is the sum of the open requests' ages; ``told`` is what the node says of it,
    known where that counts.
    """

    sum_s: Floats
    told: Column


def open_ages(
    telemetry: FleetTelemetry, believed: NDArray[np.bool_], seen_s_sum: Floats
) -> OpenAges:
    """A node that tells the age of its work knows it best, also of requests that came past the
    gateways. But its ages are by its own clock, and one that is wrong makes a node look idle (the
    outage in document A): where the clock is not ``believed`` [n] the gateways' ``seen_s_sum`` [n]
    counts, which no node's clock touches.
    """
    age, running = telemetry.kv_cache_age_s, telemetry.running
    counts = (
        believed & (age.state == SignalState.MEASURED) & (running.state == SignalState.MEASURED)
    )
    told = Column(
        np.where(counts, age.value * running.value, 0.0),
        np.where(counts, SignalState.MEASURED, SignalState.ABSENT).astype(np.int8),
        np.where(counts, age.age_s, 0.0),
    )
    return OpenAges(np.where(counts, told.value, seen_s_sum), told)
