"""A node's state in the entropy: what holds a node's share down must also hold for min_entropy."""

from __future__ import annotations

import numpy as np

from isocost.score.columns import Floats

#: Keeps nodes of an idle fleet apart, where every entropy is 0: about that of one short request.
_LEAST = 0.01

#: The table carries float32: above this a node that may get something would have infinity, never.
LARGEST_ENTROPY = float(np.finfo(np.float32).max)


def raised_entropy(entropy: Floats, factor: Floats) -> Floats:
    """Entropy of a node that may have ``factor`` of its share, [n]: e + (e + m + c)(1/f - 1).

    m is the median of the nodes that may get anything, c a small constant. f = 1 leaves e as
    it is, less raises it, 0 makes it infinite. Where the lowest entropy is chosen, nodes fill up
    until they are level at about m: this one then carries (2f - 1) of the others' load at most,
    which is below f; and an empty newcomer is not the best of all, as e/f would make it.
    """
    carrying = entropy[(factor > 0.0) & np.isfinite(entropy)]
    median = float(np.median(carrying)) if carrying.size else 0.0
    held = factor < 1.0
    result = entropy.copy()
    some = held & (factor > 0.0)
    part = factor[some]
    result[some] += (entropy[some] + median + _LEAST) * (1.0 / part - 1.0)
    finite = np.isfinite(result)
    result[finite] = np.minimum(result[finite], LARGEST_ENTROPY)
    result[held & ~some] = np.inf
    return result
