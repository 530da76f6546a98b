"""What is shown while requests are sent."""

import io
import re

from rich.console import Console

from isocost.bench.control_plane import NodeStatus
from isocost.bench.progress import Counts, LiveDisplay, NodeView, PlainDisplay, display_for

VIEWS = (
    *(
        NodeView(
            f"n{n}", 10 + n, 0.125, NodeStatus(f"n{n}", "serving", 0.5, n, 2.0), "rack-a", "H100"
        )
        for n in range(7)
    ),
    NodeView("n7", 0, None, None),
)
COUNTS = Counts(total=7, sent=0, done=0, failed=0)


def console(terminal: bool) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=120,
        height=60,
        color_system=None,
        legacy_windows=False,
    )


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def test_a_terminal_gets_a_bar_and_a_line_per_node() -> None:
    shown = console(terminal=True)
    display = display_for(shown)
    assert isinstance(display, LiveDisplay)
    with display:
        display.update(1.0, COUNTS, VIEWS, "round 1/2 a")
        live = text(shown)
    assert "0/7 requests" in live and "round 1/2 a" in live
    for view in VIEWS:
        assert re.search(rf"{view.name} +{view.rack or '-'} +{view.gpu_kind or '-'}", live)
    assert "12.5%" in live and "0.500" in live


def test_a_large_fleet_does_not_fill_the_terminal() -> None:
    shown = console(terminal=True)
    with display_for(shown) as display:
        display.update(1.0, COUNTS, [NodeView(f"n{n}", 0, None, None) for n in range(100)])
        live = text(shown)
    assert "n31" in live and "n32" not in live and "and 68 more" in live


def test_a_large_fleet_does_not_fill_a_line() -> None:
    shown = console(terminal=False)
    with display_for(shown) as display:
        display.update(5.0, COUNTS, [NodeView(f"n{n}", 0, 0.01, None) for n in range(100)])
    (line,) = text(shown).splitlines()
    assert "n31=1.0%" in line and "n32=" not in line and line.endswith("and 68 more")


def test_a_pipe_gets_a_plain_line_every_five_seconds() -> None:
    shown = console(terminal=False)
    display = display_for(shown)
    assert isinstance(display, PlainDisplay)
    with display:
        for second in range(12):
            display.update(float(second), COUNTS, VIEWS)
    lines = text(shown).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("   5 s  sent 0/7  done 0  failed 0")
    assert "n0=12.5%" in lines[0] and "\x1b" not in lines[0]
