"""What goes into the time that the filter predicts for a request on each node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.model import SignalState
from isocost.observe.fleet import Observed
from isocost.observe.speeds import Speeds
from isocost.score.columns import Column, Floats
from isocost.score.telemetry import FleetTelemetry
from isocost.weight.requests import MeanRequest

#: By how much one more open request delays a new one: the steps are shared. Found in simulation,
#: where any number from a twentieth to twice of it does as well.
REQUEST_S = 0.002

#: A node that may get nothing is never asked; any time will do, as long as it is a number.
_LEAST_FACTOR = 1e-3


@dataclass(frozen=True)
class Costs:
    """Of n nodes, each [n]: seconds per pending token, seconds per open request, seconds of work
    that no gateway knows of, and the tokens that the KV pool holds (0 = no node tells).

    What a node does not tell is the fleet's median: without one a node would seem to have no queue
    and a KV cache that never fills, and be preferred for its silence.

    ``token`` is what was learned, as a signal: absent where a prior stands in.
    """

    token_s: Floats
    request_s: Floats
    extra_s: Floats
    kv_capacity_tokens: Floats
    token: Column

    def of(self, rows: NDArray[np.intp]) -> Costs:
        return Costs(
            self.token_s[rows],
            self.request_s[rows],
            self.extra_s[rows],
            self.kv_capacity_tokens[rows],
            self.token.of(rows),
        )


def costs(
    speeds: Speeds,
    request: MeanRequest,
    telemetry: FleetTelemetry,
    observed: Observed,
    factor: Floats,
) -> Costs:
    """``factor`` [n] in [0,1] is the part of its share that a node's state leaves it: one that
    warms counts as that much slower.
    """
    state = np.maximum(factor, _LEAST_FACTOR)
    token_s = speeds.token_s / state
    # A pool has its size for life: one that is stale is as good as a measured one.
    pool = telemetry.kv_pool_tokens
    return Costs(
        token_s,
        REQUEST_S / state,
        _foreign_waiting(telemetry, observed) * request.prompt_tokens * token_s,
        _or_median(pool.value, pool.known),
        _learned(speeds.token_s, speeds.learned),
    )


def _foreign_waiting(telemetry: FleetTelemetry, observed: Observed) -> Floats:
    """Requests in the engine's queue that came past the gateways, [n]: the engine has more than
    they have open. Old counts and counts of gateways that are silent say nothing.
    """
    running, waiting = telemetry.running, telemetry.waiting
    fresh = (
        (running.state == SignalState.MEASURED)
        & (waiting.state == SignalState.MEASURED)
        & observed.in_flight_known
    )
    foreign = np.clip(running.value + waiting.value - observed.in_flight, 0.0, waiting.value)
    return _or_median(foreign, fresh)


def _or_median(value: Floats, known: NDArray[np.bool_]) -> Floats:
    """Values with the unknown replaced by the median of the known, 0 where there are none, [n]."""
    median = float(np.median(value[known])) if known.any() else 0.0
    return np.where(known, value, median)


def _learned(value: Floats, learned: NDArray[np.bool_]) -> Column:
    state = np.where(learned, SignalState.MEASURED, SignalState.ABSENT).astype(np.int8)
    return Column(np.where(learned, value, 0.0), state, np.zeros_like(value))
