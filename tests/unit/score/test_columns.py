"""Unknown is never zero; stale numbers lose their say with age."""

import math

import numpy as np
import pytest

from isocost.model import ABSENT, UNSUPPORTED, Signal, SignalState, measured
from isocost.score.columns import STALE_DECAY_S, column, combine, derived


def stale(value: float, age_s: float) -> Signal:
    return Signal(SignalState.STALE, value, age_s)


def test_an_unknown_value_becomes_the_median_of_the_measured() -> None:
    signals = column([measured(1.0), measured(3.0), measured(8.0), ABSENT, UNSUPPORTED])
    assert signals.filled(0.0).tolist() == [1.0, 3.0, 8.0, 3.0, 3.0]


def test_with_nothing_known_the_default_stands_in() -> None:
    assert column([ABSENT, UNSUPPORTED]).filled(7.0).tolist() == [7.0, 7.0]


def test_a_measured_zero_stays_zero() -> None:
    assert column([measured(0.0), measured(4.0), measured(4.0)]).filled(9.0)[0] == 0.0


def test_a_stale_value_decays_toward_the_median_with_its_age() -> None:
    fresh = [measured(10.0)] * 3
    values = [column([*fresh, stale(30.0, age)]).filled(0.0)[3] for age in (0.0, 5.0, 60.0)]
    assert values[0] == pytest.approx(30.0)
    assert values[1] == pytest.approx(10.0 + 20.0 * math.exp(-5.0 / STALE_DECAY_S))
    assert values[2] == pytest.approx(10.0, abs=0.01)


def test_with_everything_stale_the_stale_median_is_the_basis() -> None:
    values = column([stale(1.0, 100.0), stale(3.0, 100.0), stale(5.0, 100.0)]).filled(0.0)
    assert values == pytest.approx([3.0, 3.0, 3.0], abs=1e-6)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_absent(broken: float) -> None:
    signals = column([measured(2.0), measured(broken)])
    assert signals.state[1] == SignalState.ABSENT
    assert signals.filled(0.0).tolist() == [2.0, 2.0]


def test_a_derived_value_is_known_only_where_every_source_is() -> None:
    left = column([measured(1.0), ABSENT, stale(1.0, 2.0)])
    right = column([measured(2.0), measured(2.0), measured(2.0)])
    result = derived(left.value * right.value, left, right)
    assert result.known.tolist() == [True, False, True]
    assert result.state[2] == SignalState.STALE
    assert result.age_s[2] == 2.0
    assert np.isfinite(result.value).all()


def test_gpus_that_lack_a_signal_drop_out_and_an_absent_one_makes_the_sum_absent() -> None:
    assert combine([measured(1.0), UNSUPPORTED, measured(2.0)], "sum") == measured(3.0)
    assert combine([measured(1.0), ABSENT], "sum") == ABSENT
    assert combine([UNSUPPORTED, UNSUPPORTED], "sum") == UNSUPPORTED
    assert combine([measured(1.0), stale(4.0, 3.0)], "max") == stale(4.0, 3.0)
    assert combine([measured(1.0), measured(3.0)], "mean") == measured(2.0)
