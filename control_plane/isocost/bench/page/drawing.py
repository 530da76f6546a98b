"""Drawing one plot: matplotlib without display, without the user's settings, always alike."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from isocost.bench.page.compact import compact
from isocost.bench.page.palette import GRID, INK, MUTED, PAPER
from isocost.bench.page.text import printable, tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: In a phone's width its 9 point letters are still read, in half a desktop's they are 12 pixels.
WIDTH_IN = 6.0
#: A range wider than this reads better by orders of magnitude.
LOGARITHMIC_FROM = 20.0

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    # A node may be named "$\\frac$".
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "figure.titlesize": 10.5,
    "figure.titleweight": "bold",
    "axes.labelsize": 9.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "figure.facecolor": PAPER,
    "hatch.linewidth": 0.6,
}


def draw(
    paint: Callable[[Figure], None], *, key: str, title: str, description: str, height_in: float
) -> str:
    """What ``paint`` draws on a figure, under its title, as one ``<svg>`` element.

    ``description`` is for those who do not see it. ``key`` makes the ids; the same plot with the
    same key gives the same bytes.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # The user's matplotlibrc must not reach the page, nor the page's settings the caller.
    settings: dict[Any, Any] = dict(matplotlib.rcParamsDefault)
    settings.update(_SETTINGS, **{"svg.hashsalt": key})
    settings.pop("backend", None)
    out = io.BytesIO()
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        # Its font is only measured with; the browser draws, and has letters for every language.
        warnings.filterwarnings(
            "ignore", message="Glyph .* missing from font", category=UserWarning
        )
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        FigureCanvasSVG(figure)
        paint(figure)
        figure.suptitle(printable(title), x=0.012, ha="left")
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return compact(
        out.getvalue().decode("utf-8"),
        key=key,
        title=printable(title),
        description=printable(description),
    )


def plain_numbers(axis: Axis) -> None:
    """Ticks as plain numbers: 1,000 and not 10^3."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _position: tick(value)))
    axis.set_minor_formatter(NullFormatter())


def logarithmic(axes: Axes, which: Literal["x", "y"]) -> None:
    """A logarithmic axis with ticks at 1, 2 and 5 of every decade, as far as there is room."""
    from matplotlib.ticker import LogLocator, NullLocator

    if which == "x":
        axes.set_xscale("log")
    else:
        axes.set_yscale("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
    axis.set_minor_locator(NullLocator())
    plain_numbers(axis)


def is_wide(low: float, high: float) -> bool:
    """Whether values from ``low`` to ``high`` belong on a logarithmic axis."""
    return low > 0 and high / low > LOGARITHMIC_FROM


def legend_above(axes: Axes, columns: int) -> None:
    """The legend between title and plot, where it covers nothing."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        ncols=columns,
        handlelength=2.2,
        columnspacing=1.4,
        borderpad=0.2,
    )
