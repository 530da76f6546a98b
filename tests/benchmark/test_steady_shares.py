"""What counts as a share that moved."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmark.steady_shares import DURATION_S, SETTLED_S, WINDOW_S, moved


def requests(*windows: tuple[float, ...]) -> np.ndarray:
    """Per second and node: anything before the first half minute is over, then the windows."""
    start = np.random.default_rng(1).integers(0, 9, (SETTLED_S, len(windows[0])))
    return np.concatenate([start, *(np.tile(window, (WINDOW_S, 1)) for window in windows)])


def test_shares_that_stay_have_not_moved_whatever_the_start_and_the_load_do() -> None:
    steady = requests((2.0, 4.0), (2.0, 4.0), (4.0, 8.0))
    assert len(steady) == DURATION_S
    assert moved(steady) == pytest.approx(0.0)


def test_a_share_moved_by_its_range_as_a_part_of_its_own_or_of_a_fair_one() -> None:
    # From 0.5 to 0.6 of two nodes; the other one from 0.4 to 0.5, of a fair share.
    assert moved(requests((5.0, 5.0), (6.0, 4.0), (5.5, 4.5))) == pytest.approx(0.2)
    # From 0.8 to 0.88: of itself. The other one moved as far, by 0.16 of a fair share.
    assert moved(requests((80.0, 20.0), (88.0, 12.0), (80.0, 20.0))) == pytest.approx(0.16)
