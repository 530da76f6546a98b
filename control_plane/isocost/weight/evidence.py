"""What the gateways saw of each node, as a verdict and as a part of its share. Arrays are [n]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isocost.config import StateSettings
from isocost.observe.fleet import Observed
from isocost.score.columns import Floats

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Evidence:
    """``bad``: enough to eject; ``poor``: enough to suspect, and true of every bad node.

    ``share`` in (0,1] is what the node's answers leave of its share; ``failure_ratio`` in [0,1].
    """

    bad: Flags
    poor: Flags
    share: Floats
    failure_ratio: Floats


def evidence(observed: Observed, now_s: float, settings: StateSettings) -> Evidence:
    """Judge the recent answers. Client errors are good answers, and aborts are none.

    A 429 says that a node works and is full: it lowers the share and nothing else.
    """
    good, failed, limited = (
        observed.recent.good,
        observed.recent.failed,
        observed.recent.rate_limited,
    )
    ratio = failed / np.maximum(good + failed, 1.0)
    bad = (failed >= settings.eject_failures) & (ratio >= settings.eject_ratio)
    poor = (failed >= settings.suspect_failures) & (ratio >= settings.suspect_ratio)
    # A window never holds enough failures of a node with little traffic, the less so as its share
    # falls: there the failures without a good answer in between count, however slowly they came.
    seldom = (good + failed < 2 * settings.eject_failures) & (
        now_s - observed.last_failed_s <= settings.window_s
    )
    bad |= seldom & (observed.failed_in_a_row >= settings.eject_failures)
    poor |= seldom & (observed.failed_in_a_row >= settings.suspect_failures)
    # Out of a few answers one that failed is chance: it counts as one out of ``eject_failures``.
    fewest = float(settings.eject_failures)
    working = 1.0 - failed / np.maximum(good + failed, fewest)
    taking = 1.0 - limited / np.maximum(good + failed + limited, fewest)
    share = np.maximum(working * taking, settings.lowest_share)
    return Evidence(bad, bad | poor, share, ratio)
