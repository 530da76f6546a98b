"""What an operator set by hand for a node."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isocost.errors import RejectedError


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
        "weight": (1.0, "a number from 0 to 1"),
        "entropy": (math.inf, "a number >= 0, or inf"),
    }
    if field not in limits:
        raise RejectedError(f"unknown field {field!r}; an override has weight or entropy")
    most, allowed = limits[field]
    try:
        number = float(value) if isinstance(value, (int, float, str)) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not 0.0 <= number <= most:
        raise RejectedError(f"{field}: {value!r} is not allowed; it must be {allowed}")
    return Override(**{field: number})
