"""Non-negative least squares, and what is refused."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.calibrate.fit import fit
from isocost.calibrate.nnls import Floats, nnls
from isocost.errors import FitError


def best_of_all_subsets(matrix: Floats, target: Floats) -> float:
    """The smallest error of any least squares over some columns that is nowhere negative."""
    columns = range(matrix.shape[1])
    errors = [float(target @ target)]
    for count in range(1, matrix.shape[1] + 1):
        for chosen in combinations(columns, count):
            part = matrix[:, chosen]
            found = np.linalg.lstsq(part, target, rcond=None)[0]
            if (found >= 0).all():
                errors.append(float(np.sum((part @ found - target) ** 2)))
    return min(errors)


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 12), columns=st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_no_other_choice_of_columns_has_a_smaller_error(seed: int, rows: int, columns: int) -> None:
    choose = np.random.default_rng(seed)
    matrix, target = choose.normal(size=(rows, columns)), choose.normal(size=rows)
    found = nnls(matrix, target)
    assert (found >= 0).all()
    error = float(np.sum((matrix @ found - target) ** 2))
    assert error == pytest.approx(best_of_all_subsets(matrix, target), rel=1e-9, abs=1e-12)


def test_a_solution_that_is_nowhere_negative_is_found_exactly() -> None:
    matrix = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [1.0, 1.0, 0.0], [2.0, 0.0, 5.0]])
    assert nnls(matrix, matrix @ [0.5, 0.0, 2.0]) == pytest.approx([0.5, 0.0, 2.0], abs=1e-12)


def test_standard_errors_are_those_of_repeated_measurements() -> None:
    """What 400 repetitions spread is what each of them tells."""
    choose = np.random.default_rng(3)
    matrix = np.column_stack([np.ones(40), np.tile([0.0, 1.0, 2.0, 3.0], 10)])
    exact = matrix @ [5.0, 1.0]
    found = [
        fit(("a", "b"), matrix, exact * (1 + 0.01 * choose.normal(size=40))) for _ in range(400)
    ]
    for column, unit in enumerate(np.eye(2)):
        spread = np.std([one.coefficients[column] for one in found])
        told = np.mean([one.error(unit) for one in found])
        assert told == pytest.approx(spread, rel=0.1)


def test_columns_that_go_together_are_named() -> None:
    choose = np.random.default_rng(5)
    one, other = choose.random((2, 20))
    matrix = np.column_stack([one, other, other * 2 + 1e-3 * choose.random(20)])
    with pytest.raises(FitError, match=r"these go together: b, c$"):
        fit(("a", "b", "c"), matrix, one + other + 1.0)


def test_the_condition_number_does_not_depend_on_units() -> None:
    matrix = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    target = np.array([1.0, 2.0, 3.0])
    one = fit(("a", "b"), matrix, target)
    other = fit(("a", "b"), matrix * [1.0, 1e9], target)
    assert one.condition == pytest.approx(other.condition)
    assert other.coefficients == pytest.approx([1.0, 1e-9])


def test_as_many_measurements_as_coefficients_are_too_few() -> None:
    with pytest.raises(FitError, match="2 measurements are too few for 2 coefficients"):
        fit(("a", "b"), np.eye(2), np.ones(2))


def test_what_was_never_there_is_named() -> None:
    with pytest.raises(FitError, match="nothing was measured of: b"):
        fit(("a", "b"), np.array([[1.0, 0.0]] * 3), np.ones(3))
