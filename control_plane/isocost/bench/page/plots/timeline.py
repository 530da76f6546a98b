"""The run over time: latency, throughput and failures, with the faults as shaded spans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from isocost.bench.page.drawing import draw, is_wide, legend_above, logarithmic, plain_numbers
from isocost.bench.page.palette import BLUE, GREEN, INK, ORANGE, UNKNOWN, VERMILLION
from isocost.bench.page.read import Data, Values, items, known, real, series, text
from isocost.bench.page.text import count, label, number, tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Faults with their own row; the table has all.
_MAX_FAULTS = 24


def timeline(report: Data, key: str = "timeline") -> str | None:
    """Panels over one time axis; None where the report has no series."""
    times = series(report, "series.t_s")
    if not times:
        return None
    faults = [fault for fault in items(report, "faults") if real(fault, "start_s") is not None]
    shown = faults[:_MAX_FAULTS]
    failed, rejected = series(report, "series.failed"), series(report, "series.rejected")
    heights = [1.6, 1.1]
    if any(known((*failed, *rejected))):
        heights.append(0.9)
    if shown:
        heights.insert(0, 0.15 + 0.17 * len(shown))
    step_s = real(report, "series.step_s") or 1.0
    end_s = max(known(times), default=0.0) + step_s

    def paint(figure: Figure) -> None:
        panels = list(
            figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights).flat
        )
        if shown:
            _paint_faults(panels[0], shown, end_s)
        measured = panels[1:] if shown else panels
        for panel in measured:
            for fault in faults:
                start_s, stop_s = _span(fault, end_s)
                panel.axvspan(start_s, stop_s, color=ORANGE, alpha=0.18, linewidth=0)
        _paint_latency(measured[0], report, times)
        _paint_requests(measured[1], report, times, step_s)
        if len(measured) > 2:
            _paint_failures(measured[2], times, failed, rejected, step_s)
        panels[-1].set_xlabel("time of the trace, s")
        panels[-1].set_xlim(0, end_s)
        figure.align_ylabels(panels)

    p99 = list(known(series(report, "series.ttft_p99_ms")))
    described = f"{count(len(times))} steps of {tick(step_s)} s."
    if p99:
        described += f" Highest TTFT p99 of a step: {number(max(p99))} ms."
    described += f" Failed requests: {count(sum(known(failed)))}."
    described += f" Rejected: {count(sum(known(rejected)))}. Faults: {len(faults)}."
    return draw(
        paint,
        key=key,
        title="Over time, by scheduled time" + ("; faults shaded" if faults else ""),
        description=described,
        height_in=0.9 + sum(heights) + 0.1 * len(heights),
    )


def _span(fault: Data, end_s: float) -> tuple[float, float]:
    """A fault without end lasts to the end of the run."""
    stop_s = real(fault, "end_s")
    return real(fault, "start_s") or 0.0, end_s if stop_s is None else stop_s


def _paint_faults(axes: Axes, faults: Sequence[Data], end_s: float) -> None:
    for row, fault in enumerate(faults):
        start_s, stop_s = _span(fault, end_s)
        axes.barh(row, stop_s - start_s, left=start_s, height=0.6, color=ORANGE)
    names = [f"{label(text(fault, 'fault'))} {label(text(fault, 'node'))}" for fault in faults]
    axes.set_yticks(range(len(faults)), names)
    axes.tick_params(axis="y", length=0, labelsize=8)
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(len(faults) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _paint_latency(axes: Axes, report: Data, times: Values) -> None:
    lines: list[tuple[str, str, str | tuple[int, tuple[float, ...]]]] = [
        ("p99", VERMILLION, "-"),
        ("p50", BLUE, (0, (5, 1.2))),
    ]
    metric, title = "ttft", "TTFT, ms"
    if not list(known(series(report, "series.ttft_p50_ms"))):
        # Answers that are not streamed have no first token.
        metric, title, lines = "e2e", "end to end, ms", lines[1:]
    every: list[float] = []
    for name, colour, dashes in lines:
        values = series(report, f"series.{metric}_{name}_ms")
        every.extend(known(values))
        _line(axes, times, values, colour, dashes, name)
    axes.set_ylabel(title)
    positive = [value for value in every if value > 0]
    if positive and is_wide(min(positive), max(positive)):
        logarithmic(axes, "y")
    else:
        plain_numbers(axes.yaxis)
        axes.set_ylim(bottom=0)
    legend_above(axes, 2)


def _paint_requests(axes: Axes, report: Data, times: Values, step_s: float) -> None:
    # Counts hold for their whole step.
    edges = [*known(times), (times[-1] or 0.0) + step_s]
    sent, ok = (
        [(value or 0.0) / step_s for value in series(report, f"series.{name}")]
        for name in ("sent", "ok")
    )
    # What was asked for as an area: where the line of what was answered leaves it, it is seen.
    axes.stairs(sent, edges, fill=True, color=UNKNOWN, alpha=0.45, linewidth=0, label="sent")
    axes.stairs(ok, edges, baseline=None, color=GREEN, linewidth=1.3, label="complete")
    axes.set_ylabel("requests/s")
    axes.set_ylim(bottom=0)
    plain_numbers(axes.yaxis)
    legend_above(axes, 2)


def _paint_failures(
    axes: Axes, times: Values, failed: Values, rejected: Values, step_s: float
) -> None:
    """Rejected ones stand on the failed ones."""
    bars = [
        (time or 0.0, (bad or 0.0) / step_s, (refused or 0.0) / step_s)
        for time, bad, refused in zip(times, failed, rejected, strict=True)
        if bad or refused
    ]
    starts, bad_per_s, refused_per_s = zip(*bars, strict=True)
    axes.bar(starts, bad_per_s, width=step_s, align="edge", color=VERMILLION, label="failed")
    if any(refused_per_s):
        axes.bar(
            starts,
            refused_per_s,
            bottom=bad_per_s,
            width=step_s,
            align="edge",
            color=ORANGE,
            label="rejected",
        )
        legend_above(axes, 2)
    axes.set_ylabel("failed/s", color=INK)
    axes.set_ylim(bottom=0)
    plain_numbers(axes.yaxis)


def _line(
    axes: Axes,
    times: Values,
    values: Sequence[float | None],
    colour: str,
    dashes: str | tuple[int, tuple[float, ...]],
    name: str,
) -> None:
    """A line that has a gap where nothing is known; a lone value is a point."""
    numbers = [math.nan if value is None else value for value in values[: len(times)]]
    axes.plot(
        [math.nan if time is None else time for time in times[: len(numbers)]],
        numbers,
        color=colour,
        linestyle=dashes,
        marker="o" if len(numbers) == 1 else None,
        markersize=4,
        linewidth=1.3,
        label=name,
    )
