"""Conditions on a report, such as "ttft_ms.p99>850": what makes a run in CI a failure."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isocost.bench import shape
from isocost.bench.comparison import Comparison
from isocost.bench.report import Report
from isocost.errors import RejectedError

OPERATORS = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_FORM = re.compile(r"\s*([^<>=!]+?)\s*(>=|<=|==|!=|>|<)\s*([^<>=!]+?)\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """PATH OP NUMBER: the number at a dotted path of the report, in its unit, is compared.

    Items of lists go by name (nodes.n1.share), true is 1 and false is 0.
    """

    text: str
    path: str
    operator: str
    number: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition; RejectedError says what is allowed."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise RejectedError(
                f"{text!r} is not a condition; PATH OP NUMBER with OP one of "
                f"{' '.join(OPERATORS)}, for example ttft_ms.p99>850"
            )
        path, comparison, number = match.groups()
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise RejectedError(
                f"{text!r}: {number!r} is not a number; write it without its unit, for example "
                "ttft_ms.p99>850"
            )
        return cls(text, path, comparison, value)

    def check(self, report: type[Report] | type[Comparison]) -> None:
        """RejectedError where no report of this type can have a number at the path."""
        try:
            shape.check(self.path.split("."), report)
        except RejectedError as error:
            raise RejectedError(f"{self.text!r}: {error}") from error

    def value(self, data: Mapping[str, Any]) -> float | None:
        """The number at the path of a written report; None = not known.

        RejectedError names what there is where the path's node, target or the like is missing.
        """
        kind = Comparison if data["schema"] == "isocost.comparison/1" else Report
        self.check(kind)
        try:
            found = shape.look_up(self.path.split("."), kind, data)
        except RejectedError as error:
            raise RejectedError(f"{self.text!r}: {error}") from error
        # Infinity is written as text; other text is no number.
        return None if found is None else float(found)

    def holds(self, value: float) -> bool:
        """Whether the condition is true of the number at its path."""
        return bool(OPERATORS[self.operator](value, self.number))
