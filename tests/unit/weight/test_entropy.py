"""What holds a share down also holds for the policy of the lowest entropy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isocost.weight.entropy import raised_entropy


def raised(entropy: list[float], factor: list[float]) -> list[float]:
    return raised_entropy(np.array(entropy), np.array(factor)).tolist()


def test_a_whole_share_leaves_the_entropy_as_it_is() -> None:
    assert raised([0.0, 1.5, np.inf], [1.0, 1.0, 1.0]) == [0.0, 1.5, np.inf]


def test_no_share_is_never() -> None:
    assert raised([0.0, 1.0], [0.0, 1.0]) == [np.inf, 1.0]


def test_an_empty_newcomer_is_not_the_best_of_a_loaded_fleet() -> None:
    newcomer, *others = raised([0.0, 2.0, 3.0, 4.0], [0.1, 1.0, 1.0, 1.0])
    assert newcomer > max(others)


def test_an_idle_newcomer_is_not_the_best_of_an_idle_fleet() -> None:
    newcomer, *others = raised([0.0, 0.0, 0.0], [0.1, 1.0, 1.0])
    assert newcomer > max(others)


def test_filled_up_to_the_others_level_a_node_carries_no_more_than_its_part() -> None:
    for factor in (0.3, 0.55, 0.7, 0.9, 0.99):
        load = 0.0
        while raised([load, 4.0, 4.0, 4.0, 4.0], [factor, 1.0, 1.0, 1.0, 1.0])[0] < 4.0:
            load += 0.01
        assert load / 4.0 <= factor


values = st.floats(0.0, 1e6)
#: A trial beside a hundred thousand requests a second has the smallest share there is.
shares = st.one_of(st.just(0.0), st.floats(1e-6, 1.0))


@given(st.lists(st.tuples(values, shares), min_size=1, max_size=20))
def test_entropy_is_never_lowered_and_finite_exactly_where_something_may_go(
    nodes: list[tuple[float, float]],
) -> None:
    entropy, factor = (list(column) for column in zip(*nodes, strict=True))
    for before, part, after in zip(entropy, factor, raised(entropy, factor), strict=True):
        assert after >= before
        assert np.isfinite(np.float32(after)) == (part > 0.0)


@given(values, st.floats(0.001, 1.0), st.floats(0.001, 1.0))
def test_a_smaller_part_never_means_a_lower_entropy(
    entropy: float, one: float, other: float
) -> None:
    small, large = sorted((one, other))
    assert raised([entropy, 1.0], [small, 1.0])[0] >= raised([entropy, 1.0], [large, 1.0])[0]
