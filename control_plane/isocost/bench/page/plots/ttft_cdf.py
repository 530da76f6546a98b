"""The distribution of the time to first token, one curve per target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isocost.bench.page.drawing import draw, is_wide, legend_above, logarithmic, plain_numbers
from isocost.bench.page.palette import LINES
from isocost.bench.page.read import Data, points, real, targets
from isocost.bench.page.text import label, quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
#: Points on the curve: where its percentiles are, at their part of the answers in %.
_MARKED = (("ttft_ms.p50", 50.0), ("ttft_ms.p99", 99.0))


def ttft_cdf(data: Data, key: str = "ttft-cdf") -> str | None:
    """The curve of a report, or a comparison's curves; None if no answer had a first token."""
    reports = targets(data)
    curves = {name: points(report, "ttft_cdf") for name, report in reports.items()}
    curves = {name: curve for name, curve in curves.items() if curve}
    if not curves:
        return None

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for index, (name, curve) in enumerate(curves.items()):
            line_label = f"{label(name)}: {_percentiles(reports[name])}"
            colour = LINES[index % len(LINES)]
            axes.plot(
                [ms for ms, _ in curve],
                [100 * fraction for _, fraction in curve],
                color=colour,
                linestyle=_DASHES[index % len(_DASHES)],
                label=line_label,
            )
            marks = [(real(reports[name], path), share) for path, share in _MARKED]
            known = [(ms, share) for ms, share in marks if ms is not None]
            axes.plot(
                [ms for ms, _ in known],
                [share for _, share in known],
                linestyle="none",
                marker="o",
                markersize=4.5,
                color=colour,
            )
        _axes(axes, [ms for curve in curves.values() for ms, _ in curve])
        legend_above(axes, 1)

    described = "; ".join(f"{name}: {_percentiles(reports[name])}" for name in curves)
    return draw(
        paint,
        key=key,
        title="Time to first token: share of the answers that had begun",
        description=f"Cumulative distribution. {described}",
        height_in=3.2 + 0.17 * len(curves),
    )


def _percentiles(report: Data) -> str:
    p50, p99 = real(report, "ttft_ms.p50"), real(report, "ttft_ms.p99")
    return f"p50 {quantity(p50, 'ms')}, p99 {quantity(p99, 'ms')}"


def _axes(axes: Axes, all_ms: Sequence[float]) -> None:
    positive = [ms for ms in all_ms if ms > 0]
    if positive and is_wide(min(positive), max(positive)):
        logarithmic(axes, "x")
    else:
        plain_numbers(axes.xaxis)
        axes.set_xlim(left=0)
    axes.set_ylim(0, 102)
    axes.set_xlabel("time to first token, ms")
    axes.set_ylabel("answers, %")
