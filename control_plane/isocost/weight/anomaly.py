"""Is a node's entropy too good to be true? What its open requests make, as the gateways see them,
is the measure: that number no node tells.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from isocost.config import EntropySettings, StateSettings
from isocost.model import SignalState
from isocost.observe.fleet import Observed
from isocost.score.columns import Column, Floats
from isocost.score.entropy import EntropyTerms
from isocost.score.telemetry import FleetTelemetry
from isocost.weight.evidence import Flags
from isocost.weight.roster_change import moved

#: Of a normal distribution: its standard deviation over its median absolute deviation.
_SIGMA_PER_MAD = 1.4826
#: Less than half of what the requests make: nothing that a prefix cache does to one node alone, nor
#: what estimates of memory and late reports do where the others happen to agree.
_FAR = math.log(2.0)
#: The page and the reports are some tenths of a second apart: half of the requests is near enough.
_HONEST = 0.5
#: Of fewer open requests the entropy is mostly chance.
_FEWEST_OPEN = 3
#: An entropy of 0 has no logarithm.
_LEAST = 1e-12
#: Who is odd among fewer, nobody can say.
_FEWEST_NODES = 4


def explained(
    telemetry: FleetTelemetry,
    terms: EntropyTerms,
    kv_bytes_per_token: Column,
    observed: Observed,
    settings: EntropySettings,
) -> Floats:
    """The entropy [n], not divided by the capacity, of the open requests that the gateways know:
    their tokens whose prompts are read, and their ages. NaN where that explains nothing, as where
    the engine does not tell its memory, or too few are open.
    """
    tokens = np.maximum(observed.kv_tokens - observed.pending_tokens, 0)
    kv_bytes = np.minimum(tokens * kv_bytes_per_token.value, telemetry.kv_pool_bytes.value)
    kv = settings.kv_per_gb * kv_bytes / 1e9
    # Prompts that begin alike share their memory. An engine that owns up to its requests is
    # believed what they take.
    told = telemetry.running.value + telemetry.waiting.value
    honest = telemetry.running.known & (told >= _HONEST * observed.in_flight)
    kv = np.where(honest, np.minimum(kv, terms.kv), kv)
    ages = settings.age_per_s * observed.open_age_s_sum / settings.reference_concurrency
    usable = (
        (telemetry.kv_usage.state == SignalState.MEASURED)
        & telemetry.kv_pool_bytes.known
        & observed.in_flight_known
        & (observed.in_flight >= _FEWEST_OPEN)
    )
    result: Floats = np.where(usable, kv + ages, math.nan)
    return result


class AnomalyWatch:
    """Remembers for how many ticks a node was too good, and when last."""

    def __init__(self, settings: StateSettings) -> None:
        #: Replaced as a whole.
        self.settings = settings
        self._ticks = np.zeros(0, dtype=np.intp)
        self._last_s = np.zeros(0)

    def rearrange(self, former: NDArray[np.intp]) -> None:
        """Follow a new roster: ``former`` [n] is each node's place in the old one, -1 = none."""
        self._ticks = moved(self._ticks, former, 0)
        self._last_s = moved(self._last_s, former, -math.inf)

    def update(self, whole: Floats, explained: Floats, now_s: float) -> Flags:
        """The nodes [n] that are anomalous at ``now_s``, and for a clean period after it; see
        ``too_good``.
        """
        settings = self.settings
        good = too_good(whole, explained)
        self._ticks = np.where(good, self._ticks + 1, 0)
        self._last_s[self._ticks >= settings.anomaly_ticks] = now_s
        result: Flags = now_s - self._last_s < settings.clean_s
        # What most nodes do is no anomaly, whatever it is.
        if np.count_nonzero(result) > settings.max_out_fraction * len(result):
            result = np.zeros_like(result)
        return result


def too_good(whole: Floats, explained: Floats) -> Flags:
    """Where the ``whole`` entropy [n] is below what the open requests explain by two sigma of how
    the other nodes differ from that, and by half: robust, since two liars are no majority.

    What others have beside the gateways' requests is nothing that this node lacks, so it need not
    be above what is ``explained`` [n] of it.
    """
    result = np.zeros(len(whole), dtype=np.bool_)
    places = np.flatnonzero(explained > 0.0)
    if len(places) < _FEWEST_NODES:
        return result
    log_ratio = np.log(np.maximum(whole[places], _LEAST) / explained[places])
    middle, deviation = leave_one_out(log_ratio)
    below = np.minimum(middle, 0.0) - log_ratio
    result[places] = below > np.maximum(2.0 * _SIGMA_PER_MAD * deviation, _FAR)
    return result


def leave_one_out(values: Floats) -> tuple[Floats, Floats]:
    """Of the others of each value, the median and the median absolute deviation from it, each [m];
    m >= 2.
    """
    middle = _median_of_others(values)
    # The deviation of the others is from their own median: of two kinds at most, since leaving one
    # out moves the median by one place.
    deviation = np.empty_like(values)
    for center in np.unique(middle):
        of_it = middle == center
        deviation[of_it] = _median_of_others(np.abs(values - center))[of_it]
    return middle, deviation


def _median_of_others(values: Floats) -> Floats:
    order = np.argsort(values, kind="stable")
    ranked, count = values[order], len(values)
    place = np.empty(count, dtype=np.intp)
    place[order] = np.arange(count)
    low, high = (count - 2) // 2, (count - 1) // 2
    # Without the value at its place all later ones move down by one.
    result: Floats = (ranked[low + (place <= low)] + ranked[high + (place <= high)]) / 2.0
    return result
