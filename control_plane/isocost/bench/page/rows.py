"""Plots with a row per node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isocost.bench.page.read import Data, real
from isocost.bench.page.text import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: More rows than this are a wall, not a plot; the table has every node.
MAX_ROWS = 64


def most_used(nodes: Sequence[Data]) -> list[int]:
    """The places of the nodes to show, in the report's order: those with the most requests."""
    by_requests = sorted(range(len(nodes)), key=lambda row: -(real(nodes[row], "requests") or 0.0))
    return sorted(by_requests[:MAX_ROWS])


def left_out(nodes: Sequence[Data]) -> str:
    """What to say where not every node has a row; nothing where each has."""
    if len(nodes) <= MAX_ROWS:
        return ""
    return f" Shown are the {MAX_ROWS} of {len(nodes)} nodes with the most requests."


def row_height_in(rows: int) -> float:
    """Height of ``rows`` rows: letters of 8 points must not touch."""
    return max(0.5, 0.17 * rows)


def node_axis(axes: Axes, names: Sequence[str | None]) -> None:
    """Names down the left side, the first on top."""
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
