"""The ramp of a cold node."""

import numpy as np
import pytest

from isocost.config import StateSettings
from isocost.weight.slow_start import ramp


def test_the_ramp_goes_in_a_line_from_the_floor_to_the_whole_share_and_stays() -> None:
    settings = StateSettings(slow_start_s=20.0, slow_start_floor=0.2)
    warm_for_s = np.array([-1.0, 0.0, 5.0, 10.0, 20.0, 100.0])
    expected = pytest.approx([0.2, 0.2, 0.4, 0.6, 1.0, 1.0])
    assert ramp(warm_for_s, settings).tolist() == expected
