"""How far each node was from its expected share, target beside target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from isocost.bench.page.drawing import draw, legend_above
from isocost.bench.page.palette import INK, LINES
from isocost.bench.page.read import Data, expected_shares, items, real, targets, text
from isocost.bench.page.rows import MAX_ROWS, node_axis, row_height_in
from isocost.bench.page.text import label, ratio

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = ("o", "s", "^", "D", "v", "P")


def node_balance(data: Data, key: str = "node-balance") -> str | None:
    """A point per node and target at share / expected share; None if that is nowhere known."""
    reports = targets(data)
    balances = {name: _balance(report) for name, report in reports.items()}
    names = list(dict.fromkeys(node for balance in balances.values() for node in balance))
    if not names:
        return None
    names = _furthest(names, balances)
    row_of = {name: row for row, name in enumerate(names)}

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.axvline(1.0, color=INK, linewidth=1.0)
        for index, (target, balance) in enumerate(balances.items()):
            points = [(value, row_of[node]) for node, value in balance.items() if node in row_of]
            axes.plot(
                [value for value, _ in points],
                [row for _, row in points],
                linestyle="none",
                marker=_MARKERS[index % len(_MARKERS)],
                markersize=5,
                alpha=0.85,
                color=LINES[index % len(LINES)],
                label=f"{label(target)}: largest {ratio(real(reports[target], 'imbalance'))}",
            )
        node_axis(axes, names)
        axes.set_xlim(left=0)
        axes.set_xlabel("share of the requests / expected share; 1 is perfect")
        legend_above(axes, 1)

    described = "; ".join(
        f"{target}: largest {ratio(real(report, 'imbalance'))}"
        for target, report in reports.items()
    )
    return draw(
        paint,
        key=key,
        title="Balance: each node's share beside what it should have had",
        description=f"One point per node and target. {described}",
        height_in=1.0 + 0.17 * len(balances) + row_height_in(len(names)),
    )


def _furthest(names: list[str], balances: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The nodes to show, in their order: those furthest from 1 with any target."""

    def distance(name: str) -> float:
        return max(abs(balance.get(name, 1.0) - 1.0) for balance in balances.values())

    shown = set(sorted(names, key=distance, reverse=True)[:MAX_ROWS])
    return [name for name in names if name in shown]


def _balance(report: Data) -> Mapping[str, float]:
    """Share / expected share by node, where both are known and something was expected."""
    nodes = items(report, "nodes")
    pairs = zip(nodes, expected_shares(report), strict=True)
    known = [(node, real(node, "share"), expected) for node, expected in pairs]
    return {
        text(node, "name") or "": share / expected
        for node, share, expected in known
        if share is not None and expected
    }
