"""What is remembered of each node follows it to its place in a new roster."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def moved(array: NDArray[Scalar], former: NDArray[np.intp], new: float) -> NDArray[Scalar]:
    """The rows at their new places; ``new`` is what nodes have that were not there."""
    result = np.full((len(former), *array.shape[1:]), new, dtype=array.dtype)
    old = former >= 0
    result[old] = array[former[old]]
    return result
