"""Entropy over time, a row per node; without a control plane, requests in its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from isocost.bench.page.cells import (
    INFINITE,
    NOTHING,
    Grid,
    class_names,
    grid,
    highest,
    mean,
    runs,
)
from isocost.bench.page.drawing import draw
from isocost.bench.page.palette import HEAT, UNKNOWN, VERMILLION
from isocost.bench.page.read import Data, Values, items, known, real, series, text
from isocost.bench.page.rows import most_used, node_axis, row_height_in
from isocost.bench.page.text import count, number, tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch


def has_entropy(report: Data) -> bool:
    """Whether a control plane said something about any node at any time."""
    return any(
        value is not None
        for node in items(report, "nodes")
        for value in series(node, "series.entropy")
    )


def heat_map(report: Data, key: str = "heat-map") -> str | None:
    """Nodes by time: entropy where it is known, else requests; None where there is neither."""
    entropy = has_entropy(report)
    nodes = items(report, "nodes")
    rows = most_used(nodes)
    step_s = real(report, "series.step_s") or 1.0
    path = "series.entropy" if entropy else "series.requests"
    values = [series(nodes[row], path) for row in rows]
    if not any(any(value is not None for value in row) for row in values):
        return None
    # Steps differ in length between reports: requests are shown per second.
    scaled: list[Values] = values if entropy else [_per_second(row, step_s) for row in values]
    cells = grid(scaled, step_s, highest if entropy else mean)
    what, merged = ("Entropy", "highest") if entropy else ("Requests per second", "mean")
    names = [text(nodes[row], "name") for row in rows]

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        handles = _paint_cells(axes, cells)
        node_axis(axes, names)
        axes.set_xlim(0, cells.columns * cells.column_s)
        axes.set_xlabel("time of the trace, s")
        axes.grid(visible=False)
        axes.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=4,
            handlelength=1.3,
            handleheight=1.0,
            columnspacing=1.2,
            borderaxespad=0.3,
            borderpad=0.2,
        )

    finite = list(known([value for row in scaled for value in row]))
    infinite = sum(value == math.inf for row in scaled for value in row)
    described = f"{len(rows)} nodes by {cells.columns} columns of {tick(cells.column_s)} s."
    if finite:
        described += f" From {number(min(finite))} to {number(max(finite))}."
    described += f" Infinite: {count(infinite)} samples."
    return draw(
        paint,
        key=key,
        title=f"{what} of each node over time"
        + (f", {merged} of each {tick(cells.column_s)} s" if cells.steps > 1 else ""),
        description=described,
        height_in=1.45 + row_height_in(len(rows)),
    )


def _per_second(values: Values, step_s: float) -> Values:
    return tuple(None if value is None else value / step_s for value in values)


def _paint_cells(axes: Axes, cells: Grid) -> list[Patch]:
    """One shape per class of values, and the legend's entries."""
    from matplotlib.patches import Patch, PathPatch
    from matplotlib.path import Path

    handles: list[Patch] = []
    names = {**class_names(cells.bounds), INFINITE: "infinite", NOTHING: "unknown"}
    for kind, name in names.items():
        rectangles = list(runs(cells, kind))
        if not rectangles and kind in {INFINITE, NOTHING}:
            continue
        fill, hatch = _look(kind, len(cells.bounds) - 1)
        handles.append(Patch(facecolor=fill, edgecolor=UNKNOWN, hatch=hatch, lw=0.5, label=name))
        if rectangles:
            vertices: list[Sequence[float]] = []
            for row, start, stop in rectangles:
                left, right = start * cells.column_s, stop * cells.column_s
                top, bottom = row - 0.5, row + 0.5
                vertices += [
                    (left, top),
                    (right, top),
                    (right, bottom),
                    (left, bottom),
                    (left, top),
                ]
            codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY] * len(rectangles)
            # A hair's edge in their own colour: cells that touch leave no seam.
            axes.add_patch(
                PathPatch(
                    Path(vertices, codes),
                    facecolor=fill,
                    edgecolor=UNKNOWN if hatch else fill,
                    hatch=hatch,
                    linewidth=0.0 if hatch else 0.3,
                )
            )
    return handles


def _look(kind: int, classes: int) -> tuple[str, str | None]:
    """Fill and hatch of a class; the classes are spread over the whole scale."""
    if kind == INFINITE:
        return VERMILLION, None
    if kind == NOTHING:
        return "none", "/////"
    place = 0 if classes < 2 else round(kind * (len(HEAT) - 1) / (classes - 1))
    return HEAT[place], None
