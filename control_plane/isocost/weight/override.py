"""What an operator set by hand for a node."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isocost.config import Policy
from isocost.errors import RejectedError
from isocost.weight.entropy import LARGEST_ENTROPY
from isocost.weight.weight import SMALLEST_WEIGHT


@dataclass(frozen=True, slots=True)
class Override:
    """A weight in [0,1] or an entropy (infinity = never) that stands in for the computed one."""

    weight: float | None = None
    entropy: float | None = None

    def text(self) -> str:
        if self.weight is not None:
            return f"weight {self.weight:g} by hand"
        return f"entropy {self.entropy:g} by hand"


def parse_override(data: object) -> Override:
    """An override from plain data: {"weight": W} or {"entropy": E}, numbers or their text.

    Raises RejectedError naming the field, the value and what is allowed.
    """
    if not isinstance(data, dict) or len(data) != 1:
        raise RejectedError('an override is {"weight": W} or {"entropy": E}')
    ((field, value),) = data.items()
    limits = {
        "weight": (SMALLEST_WEIGHT, 1.0, f"0, or a number from {SMALLEST_WEIGHT:.3g} to 1"),
        "entropy": (0.0, LARGEST_ENTROPY, f"a number from 0 to {LARGEST_ENTROPY:.3g}, or inf"),
    }
    if field not in limits:
        raise RejectedError(f"unknown field {field!r}; an override has weight or entropy")
    least, most, allowed = limits[field]
    try:
        number = float(value) if isinstance(value, (int, float, str)) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    never = math.inf if field == "entropy" else 0.0
    if isinstance(value, bool) or not (number == never or least <= number <= most):
        raise RejectedError(f"{field}: {value!r} is not allowed; it must be {allowed}")
    return Override(**{field: number})


def refuse_ignored(override: Override, policy: Policy) -> None:
    """RejectedError for a number that the policy does not look at: a setting without effect would
    be taken for one. A weight of 0 and an infinite entropy mean never under every policy.
    """
    if policy == "min_entropy" and override.weight:
        raise RejectedError(
            f"weight: {override.weight:g} has no effect under min_entropy; set an entropy, or 0"
        )
    finite = override.entropy is not None and math.isfinite(override.entropy)
    if policy != "min_entropy" and finite:
        raise RejectedError(
            f"entropy: {override.entropy:g} has no effect under {policy}; set a weight, or inf"
        )
