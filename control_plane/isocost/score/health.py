"""Hardware health of a node as a factor in [0,1]."""

from __future__ import annotations

import numpy as np

from isocost.model import SignalState
from isocost.score.columns import Floats
from isocost.score.telemetry import FleetTelemetry


def health_factor(fleet: FleetTelemetry) -> Floats:
    """Health in [0,1], [n]: the share of the board's NVLinks that are up (document B).

    A board without NVLink is not ill: the factor is 1. A reading that should be there and is not
    counts as the fleet's median.
    """
    links = fleet.nvlink_active_fraction
    factor = np.clip(links.filled(default=1.0), 0.0, 1.0)
    factor[links.state == SignalState.UNSUPPORTED] = 1.0
    return factor
