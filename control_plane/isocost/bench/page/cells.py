"""From series of many steps to a grid of few classes, which a page can hold and an eye can read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from isocost.bench.page.read import Values, known
from isocost.bench.page.text import tick

#: About one column for every 3 points of the plot's width.
MAX_COLUMNS = 120
MAX_CLASSES = 8
#: Classes for what is no finite number.
INFINITE = -1
NOTHING = -2
#: The largest value this many times the median: equal classes would all be the first.
_SKEWED_FROM = 5.0


@dataclass(frozen=True, slots=True)
class Grid:
    """Classes by row and column; class ``i`` holds values from ``bounds[i]`` to the next."""

    classes: tuple[tuple[int, ...], ...]
    bounds: tuple[float, ...]
    steps: int
    column_s: float

    @property
    def columns(self) -> int:
        return max((len(row) for row in self.classes), default=0)


def highest(values: Values) -> float | None:
    """The highest known value, infinity before all: a short peak must not vanish."""
    return max((value for value in values if value is not None), default=None)


def mean(values: Values) -> float | None:
    """The mean of the known, finite values."""
    finite = list(known(values))
    return sum(finite) / len(finite) if finite else None


def grid(rows: Sequence[Values], step_s: float, merge: Callable[[Values], float | None]) -> Grid:
    """Columns of as many steps as it takes to have few; ``merge`` makes one value of a
    column's."""
    length = max((len(row) for row in rows), default=0)
    steps = max(1, math.ceil(length / MAX_COLUMNS))
    merged = [
        [merge(row[start : start + steps]) for start in range(0, length, steps)] for row in rows
    ]
    bounds = class_bounds([value for row in merged for value in known(row)])
    return Grid(
        classes=tuple(tuple(_class(value, bounds) for value in row) for row in merged),
        bounds=bounds,
        steps=steps,
        column_s=steps * step_s,
    )


def class_bounds(values: Sequence[float]) -> tuple[float, ...]:
    """At most eight classes with round bounds that cover ``values``: equally wide, or each about
    twice the one before where few values are far above the others."""
    if not values:
        return (0.0, 1.0)
    ordered = sorted(values)
    low, high = ordered[0], ordered[-1]
    median = ordered[len(ordered) // 2]
    if low >= 0 and high > _SKEWED_FROM * median:
        return _growing_bounds(next((value for value in ordered if value > 0), 0.0), high)
    step = _round_up((high - min(low, 0.0)) / MAX_CLASSES)
    first = math.floor(min(low, 0.0) / step) * step
    # A last bound of its own: the highest value belongs to the class below it.
    number_of_classes = max(1, math.ceil((high - first) / step - 1e-9))
    return tuple(first + index * step for index in range(number_of_classes + 1))


def class_names(bounds: Sequence[float]) -> dict[int, str]:
    """What the legend calls each class."""
    return {
        index: f"{tick(low)} to {tick(high)}" for index, (low, high) in enumerate(pairwise(bounds))
    }


def runs(cells: Grid, kind: int) -> Iterator[tuple[int, int, int]]:
    """Row, first column and the one after the last, of all neighbours of one class."""
    for row, classes in enumerate(cells.classes):
        column = 0
        for value, group in groupby(classes):
            length = len(list(group))
            if value == kind:
                yield row, column, column + length
            column += length


def _class(value: float | None, bounds: Sequence[float]) -> int:
    if value is None:
        return NOTHING
    if value == math.inf:
        return INFINITE
    return max(0, sum(value >= bound for bound in bounds[:-1]) - 1)


def _growing_bounds(smallest: float, high: float) -> tuple[float, ...]:
    """0, then 1, 2, 5, 10 ... times a power of ten, up to ``high``."""
    last = _next_round(high)
    bounds = [last]
    while len(bounds) < MAX_CLASSES and bounds[0] > smallest:
        bounds.insert(0, _previous_round(bounds[0]))
    return (0.0, *bounds)


def _round_up(step: float) -> float:
    return _next_round(step) if step > 0 else 1.0


def _next_round(value: float) -> float:
    """The smallest of 1, 2, 5 x 10^n that is not below ``value``."""
    power = 10.0 ** math.floor(math.log10(value))
    bounds = (step * power for step in (1.0, 2.0, 5.0, 10.0))
    return next(bound for bound in bounds if bound >= value * (1 - 1e-9))


def _previous_round(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value * (1 - 1e-9)))
    return max(step * power for step in (1.0, 2.0, 5.0) if step * power < value * (1 - 1e-6))
