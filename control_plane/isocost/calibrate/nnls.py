"""Least squares without negative coefficients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Gradients below this part of the largest possible one are rounding.
_TOLERANCE = 1e-12


def nnls(matrix: Floats, target: Floats) -> Floats:
    """x >= 0 that makes ``|matrix @ x - target|`` smallest; ``matrix`` is [rows, columns].

    The active-set method of Lawson and Hanson, Solving Least Squares Problems (1974), chapter 23.
    Columns of very different size should be scaled before. ValueError: no end was found.
    """
    columns = matrix.shape[1]
    solution = np.zeros(columns)
    free = np.zeros(columns, dtype=np.bool_)
    limit = _TOLERANCE * np.linalg.norm(matrix, axis=0) * np.linalg.norm(target)
    for _ in range(10 * columns + 10):
        gradient = matrix.T @ (target - matrix @ solution)
        gradient[free] = -np.inf
        if free.all() or (gradient <= limit).all():
            return solution
        free[np.argmax(gradient)] = True
        while True:
            trial = np.zeros(columns)
            trial[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
            negative = free & (trial <= 0)
            if not negative.any():
                break
            # As far towards the trial as all stay at or above 0; who gets there leaves.
            steps = solution[negative] / (solution[negative] - trial[negative])
            solution += np.min(steps) * (trial - solution)
            free &= solution > _TOLERANCE * np.max(np.abs(trial))
            solution[~free] = 0.0
        solution = trial
    raise ValueError("no end was found")
