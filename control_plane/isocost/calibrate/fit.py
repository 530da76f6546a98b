"""Coefficients from measurements, or why there are none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isocost.calibrate.nnls import Floats, nnls
from isocost.errors import FitError

#: From here on columns depend on each other strongly: Belsley, Kuh and Welsch, Regression
#: Diagnostics (1980), chapter 3.
MAX_CONDITION = 30.0
#: A column is in a dependency if it has at least this part of the direction (of length 1) in which
#: the columns nearly vanish: a tenth of its square.
_INVOLVED = 0.32


@dataclass(frozen=True, slots=True)
class Fit:
    """``covariance`` is of all coefficients as if none were bounded, [columns, columns];
    ``condition`` of the matrix with its columns scaled to one length; ``residual`` the root mean
    square of the relative errors.
    """

    names: tuple[str, ...]
    coefficients: Floats
    covariance: Floats
    condition: float
    residual: float

    def error(self, weights: Floats) -> float:
        """Standard error of ``weights @ coefficients``."""
        return math.sqrt(max(float(weights @ self.covariance @ weights), 0.0))


def fit(names: Sequence[str], matrix: Floats, target: Floats) -> Fit:
    """Least squares of the relative errors: a long time is measured as well as a short one only in
    relation to its length. FitError: too few rows, or columns that cannot be told apart.
    """
    rows, columns = matrix.shape
    if rows <= columns:
        raise FitError(f"{rows} measurements are too few for {columns} coefficients")
    weighted = matrix / target[:, None]
    lengths = np.linalg.norm(weighted, axis=0)
    if not (lengths > 0).all():
        empty = [name for name, length in zip(names, lengths, strict=True) if length == 0]
        raise FitError(f"nothing was measured of: {', '.join(empty)}")
    scaled = weighted / lengths
    _, singular, directions = np.linalg.svd(scaled, full_matrices=False)
    condition = float(singular[0] / singular[-1]) if singular[-1] > 0 else float("inf")
    if condition > MAX_CONDITION:
        together = _together(names, directions[-1])
        raise FitError(
            f"the causes cannot be told apart: condition number {condition:.0f}, above "
            f"{MAX_CONDITION:g}; these go together: {', '.join(together)}"
        )
    solution = nnls(scaled, np.ones(rows))
    residuals = scaled @ solution - 1.0
    variance = float(residuals @ residuals) / (rows - columns)
    covariance = variance * np.linalg.inv(scaled.T @ scaled)
    return Fit(
        names=tuple(names),
        coefficients=solution / lengths,
        covariance=covariance / np.outer(lengths, lengths),
        condition=condition,
        residual=float(np.sqrt(np.mean(residuals**2))),
    )


def _together(names: Sequence[str], weakest: Floats) -> list[str]:
    """The columns of the combination that nearly vanishes; none is a combination alone."""
    chosen = {int(column) for column in np.argsort(-np.abs(weakest))[:2]}
    chosen |= {int(column) for column in np.flatnonzero(np.abs(weakest) >= _INVOLVED)}
    return [names[column] for column in sorted(chosen)]
