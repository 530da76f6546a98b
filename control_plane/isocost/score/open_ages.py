"""How old the open requests of each node are together, and whose word on it counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isocost.model import SignalState
from isocost.score.columns import Floats
from isocost.score.telemetry import FleetTelemetry

#: Beside what the gateways have open: pages and their reports are some tenths of a second apart.
_SAME_PART, _SAME_COUNT = 1.25, 2.0
#: Requests are open for minutes: a mean above an hour is no age.
_LONGEST_S = 3600.0


def open_ages(
    telemetry: FleetTelemetry,
    believed: NDArray[np.bool_],
    in_flight: NDArray[np.int64],
    seen_s_sum: Floats,
) -> Floats:
    """The sum of the open requests' ages, in seconds, [n].

    What the gateways see, ``in_flight`` [n] requests of ``seen_s_sum`` [n] seconds: no node's
    clock touches it. It is all there is unless the engine runs more than that.

    Of requests that came past the gateways the node alone can tell the age, by its own clock. One
    that is wrong made a node look idle (the outage in document A), so the node's word counts where
    its clock is ``believed`` [n], and never for less than what is seen. Without it such requests
    are as old as those that are seen, or as the fleet's.
    """
    age, running = telemetry.kv_cache_age_s, telemetry.running
    tells = running.state == SignalState.MEASURED
    past = tells & (running.value > _SAME_PART * in_flight + _SAME_COUNT)
    counts = past & believed & (age.state == SignalState.MEASURED) & (age.value <= _LONGEST_S)
    fleet_s = seen_s_sum.sum() / max(in_flight.sum(), 1)
    mean_s = np.where(in_flight > 0, seen_s_sum / np.maximum(in_flight, 1), fleet_s)
    guessed = np.where(past, mean_s * np.maximum(running.value - in_flight, 0.0), 0.0)
    told = np.where(counts, age.value * running.value, 0.0)
    result: Floats = np.where(counts, np.maximum(told, seen_s_sum), seen_s_sum + guessed)
    return result
