"""Faults that a test orders from a running fake node."""

from __future__ import annotations

from dataclasses import dataclass

from isocost.fake.requests import MAX_DELAY_S
from isocost.fake.strict import Json, boolean, integer, known_keys, number

_KEYS = ("first_token_delay_s", "status", "requests", "hang")
_FOREVER = 2**63


@dataclass(frozen=True, slots=True)
class Behaviour:
    """``status`` 0 = answer properly."""

    first_token_delay_s: float = 0.0
    status: int = 0


class BehaviourControl:
    """The behaviour ordered for the next N requests, or until the next order."""

    def __init__(self) -> None:
        self._behaviour = Behaviour()
        self._left = 0
        #: The engine stands still: requests are taken and get no token, pages answer as before.
        self.hang = False

    def order(self, data: Json) -> None:
        """Replace the order; an empty one is proper behaviour."""
        known_keys(data, _KEYS)
        behaviour = Behaviour(
            number(data, "first_token_delay_s", 0, MAX_DELAY_S, 0.0),
            integer(data, "status", 400, 599, 0),
        )
        self.hang = boolean(data, "hang")
        self._left = integer(data, "requests", 1, _FOREVER, _FOREVER)
        self._behaviour = behaviour

    def next(self) -> Behaviour:
        """The behaviour of the request that came now."""
        if self._left == 0:
            return Behaviour()
        self._left -= 1
        return self._behaviour
