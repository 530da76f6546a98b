"""What each node got beside what it should have got."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isocost.bench.page.drawing import draw, legend_above
from isocost.bench.page.palette import BLUE, INK
from isocost.bench.page.read import Data, expected_shares, items, known, real, text
from isocost.bench.page.rows import most_used, node_axis, row_height_in
from isocost.bench.page.text import percent, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASIS = {
    "weight": "share of the weights",
    "capacity": "share of the capacity",
    "equal": "equal share",
}


def node_share(report: Data, key: str = "node-share") -> str | None:
    """A bar per node, a tick where its expected share is; None if no share is known."""
    nodes = items(report, "nodes")
    rows = most_used(nodes)
    shares = [real(nodes[row], "share") for row in rows]
    all_expected = expected_shares(report)
    expected = [all_expected[row] for row in rows]
    largest = max(known(shares), default=None)
    if largest is None:
        return None
    basis = BASIS.get(text(report, "imbalance_basis") or "weight", "expected share")

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        # An unknown share has no bar; its dash is in the table.
        axes.barh(
            range(len(rows)),
            [100 * (share or 0.0) for share in shares],
            height=0.66,
            color=BLUE,
            label="share of the requests",
        )
        ticks = [(100 * share, row) for row, share in enumerate(expected) if share is not None]
        if ticks:
            axes.plot(
                [share for share, _ in ticks],
                [row for _, row in ticks],
                linestyle="none",
                marker="|",
                markersize=11,
                markeredgewidth=2.2,
                color=INK,
                label=basis,
            )
        node_axis(axes, [text(nodes[row], "name") for row in rows])
        axes.set_xlim(left=0)
        axes.set_xlabel("%")
        legend_above(axes, 2)

    most = printable(text(nodes[rows[shares.index(largest)]], "name"))
    return draw(
        paint,
        key=key,
        title="Requests per node",
        description=(
            f"One bar for each of {len(rows)} nodes beside its {basis}. "
            f"Largest: {most}, {percent(largest)}."
        ),
        height_in=1.0 + row_height_in(len(rows)),
    )
