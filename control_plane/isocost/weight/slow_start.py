"""A node that is cold gets its share in a ramp."""

from __future__ import annotations

import numpy as np

from isocost.config import StateSettings
from isocost.score.columns import Floats


def ramp(warm_for_s: Floats, settings: StateSettings) -> Floats:
    """The part of its share of a node that warms since ``warm_for_s``: floor to 1, in a line."""
    passed = np.clip(warm_for_s / settings.slow_start_s, 0.0, 1.0)
    return settings.slow_start_floor + (1.0 - settings.slow_start_floor) * passed
