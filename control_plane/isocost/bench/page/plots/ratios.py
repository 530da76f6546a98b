"""A comparison's ratios with their intervals: a forest plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isocost.bench.page.drawing import draw, is_wide, logarithmic, plain_numbers
from isocost.bench.page.palette import BLUE, INK, MUTED, PAPER
from isocost.bench.page.ratio_rows import ratio_rows
from isocost.bench.page.read import Data, text
from isocost.bench.page.text import label, printable, ratio

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ratios(data: Data, key: str = "ratios") -> str | None:
    """Each target's figures over the baseline's; None where no ratio is known."""
    rows = [row for row in ratio_rows(data) if row.value is not None]
    if not rows:
        return None
    baseline = text(data, "baseline")

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.axvline(1.0, color=INK, linewidth=1.0)
        known = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
        for place, row in enumerate(rows):
            value, low = row.value or 0.0, row.low
            # Without an upper bound it goes on to the plot's edge, with an arrow.
            high = 1.1 * max(known) if row.high is None else row.high
            # An interval that holds 1 shows no difference: hollow, and so without colour too.
            colour = MUTED if row.undecided else BLUE
            if low is not None:
                axes.plot([low, high], [place, place], color=colour, linewidth=2.0)
                if row.high is None:
                    axes.plot([high], [place], marker=">", markersize=6, color=colour)
            axes.plot(
                [value],
                [place],
                marker="o",
                markersize=6,
                color=colour,
                markerfacecolor=PAPER if row.undecided else colour,
            )
            axes.text(
                1.02,
                place,
                f"{ratio(value)}  ({row.interval})",
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=8.5,
            )
        names = [f"{label(row.target)}  {label(row.title)}" for row in rows]
        axes.set_yticks(range(len(rows)), names)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        if is_wide(min(known), max(known)):
            logarithmic(axes, "x")
        else:
            plain_numbers(axes.xaxis)
        axes.set_xlabel(f"ratio to {label(baseline)}, with the 95 % interval")

    described = "; ".join(
        f"{printable(row.target)} {row.title} {ratio(row.value)} ({row.interval})" for row in rows
    )
    return draw(
        paint,
        key=key,
        title="Ratios to the baseline; hollow: no difference shown",
        description=f"Ratio to {printable(baseline)} with 95 % interval. {described}",
        height_in=1.0 + 0.22 * len(rows),
    )
