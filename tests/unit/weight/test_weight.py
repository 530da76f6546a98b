"""Document B's weight: the documents' figures, and safety at every size."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.weight.weight import relative_weight

FACTOR = 0.05


def weights(
    *rows: tuple[float, float, float, float], factor: list[float] | None = None
) -> np.ndarray:
    """Rows of (free share, PCIe share, latency ms, health)."""
    free, pcie, latency, health = np.array(rows, dtype=np.float64).T
    of_state = np.array(factor if factor is not None else [1.0] * len(rows))
    return relative_weight(free, pcie, latency, health, of_state, FACTOR)


def test_the_documents_example_is_0_0920_beside_an_idle_node() -> None:
    example, idle = weights((40 / 80, 0.5, 20.0, 1.0), (1.0, 0.0, 0.0, 1.0))
    assert idle == 1.0
    assert example == pytest.approx(0.5 * 0.5 * math.exp(-1), rel=1e-12)
    assert round(float(example), 4) == 0.0920


def test_long_latencies_keep_their_ratio() -> None:
    fast, slow = weights((1.0, 0.0, 2000.0, 1.0), (1.0, 0.0, 2020.0, 1.0))
    assert slow / fast == pytest.approx(math.exp(-1), rel=1e-9)


def test_a_factor_of_zero_is_the_only_zero() -> None:
    result = weights(
        (1.0, 0.0, 0.0, 1.0),
        (0.0, 0.0, 0.0, 1.0),
        (1.0, 1.0, 0.0, 1.0),
        (1.0, 0.0, 0.0, 0.0),
        (1.0, 0.0, 1e9, 1.0),
    )
    assert (result > 0).tolist() == [True, False, False, False, True]
    assert np.float32(result[4]) > 0


def test_all_at_zero_is_all_zero_without_a_division() -> None:
    assert weights((0.0, 0.0, 5.0, 1.0), (1.0, 1.0, 5.0, 1.0)).tolist() == [0.0, 0.0]


def test_pcie_over_its_rating_counts_as_saturated() -> None:
    assert weights((1.0, 1.3, 0.0, 1.0), (1.0, 0.0, 0.0, 1.0))[0] == 0.0


def test_a_node_that_may_get_nothing_has_no_weight_and_is_no_reference() -> None:
    result = weights((1.0, 0.0, 0.0, 1.0), (0.5, 0.0, 0.0, 1.0), factor=[0.0, 1.0])
    assert result.tolist() == [0.0, 1.0]


def test_the_states_factor_is_one_of_the_product() -> None:
    row = (1.0, 0.0, 0.0, 1.0)
    assert weights(row, row, row, factor=[1.0, 0.5, 0.1]).tolist() == pytest.approx([1, 0.5, 0.1])
    assert weights(row, row, factor=[0.5, 0.1]).tolist() == pytest.approx([1.0, 0.2])


share = st.floats(0.0, 1.0)
row = st.tuples(share, st.floats(0.0, 2.0), st.floats(0.0, 1e7), share)


@given(st.lists(st.tuples(row, share), min_size=1, max_size=40))
def test_weights_are_finite_within_one_and_one_of_them_is_one_unless_all_are_zero(
    nodes: list[tuple[tuple[float, float, float, float], float]],
) -> None:
    result = weights(*(values for values, _ in nodes), factor=[factor for _, factor in nodes])
    assert np.isfinite(result).all()
    assert ((result >= 0) & (result <= 1)).all()
    assert (result == 1.0).any() or (result == 0.0).all()
    for weight, (values, factor) in zip(result, nodes, strict=True):
        product = values[0] * max(0.0, 1.0 - values[1]) * values[3] * factor
        assert (weight > 0) == (product > 0)
