"""What is shown while the trace runs and after it."""

import io
import re

from rich.console import Console

from isocost.bench.assemble import Measurement, WeighedNode, assemble
from isocost.bench.replay import Replay, ReplaySettings
from isocost.bench.report import Percentiles
from isocost.bench.trace import TraceRequest
from isocost.demo.control_plane import NodeStatus
from isocost.demo.display import LiveDisplay, PlainDisplay, display_for
from isocost.demo.fleet import fleet
from isocost.demo.observer import NodeView
from isocost.demo.results import print_results

NODES = fleet(18101)
VIEWS = (
    *(
        NodeView(node, 10 + n, 0.125, NodeStatus(node.name, "serving", 0.5, n, 2.0, None))
        for n, node in enumerate(NODES[:-1])
    ),
    NodeView(NODES[-1], 0, None, None),
)


def console(terminal: bool) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=120,
        color_system=None,
        legacy_windows=False,
    )


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def replay() -> Replay:
    return Replay([TraceRequest(0.0, 1, 1)] * 7, ReplaySettings("http://127.0.0.1:1", "m"))


def test_a_terminal_gets_a_bar_and_a_line_per_node() -> None:
    shown = console(terminal=True)
    display = display_for(shown)
    assert isinstance(display, LiveDisplay)
    with display:
        display.update(1.0, replay(), VIEWS)
        live = text(shown)
    assert "0/7 requests" in live
    for node in NODES:
        assert re.search(rf"{node.name} +{node.rack}", live)
    assert "12.5%" in live and "0.500" in live


def test_a_pipe_gets_a_plain_line_every_five_seconds() -> None:
    shown = console(terminal=False)
    display = display_for(shown)
    assert isinstance(display, PlainDisplay)
    with display:
        for second in range(12):
            display.update(float(second), replay(), VIEWS)
    lines = text(shown).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("   5 s  sent 0/7  done 0  failed 0")
    assert f"{NODES[0].name}=12.5%" in lines[0] and "\x1b" not in lines[0]


def run(machine_busy: float | None) -> Measurement:
    return Measurement(
        policy="weighted_random",
        seed=1,
        results=(),
        log=(),
        nodes=tuple(WeighedNode(node.name, node.rack, None) for node in NODES),
        push_interval_ms=Percentiles(200.0, 207.0),
        wasm_bytes=123_456,
        envoy_cpu_s=None,
        machine_busy=machine_busy,
        versions={},
    )


def test_results_show_unknown_as_a_dash_and_name_every_node() -> None:
    shown = console(terminal=False)
    print_results(shown, assemble(run(0.5)))
    printed = text(shown)
    assert all(node.name in printed for node in NODES)
    assert "push interval p50 200 ms, p99 207 ms; table age at the pick p50 - ms" in printed
    assert "123,456 bytes" in printed and "machine 50.0% busy" in printed
    assert "INVALID" not in printed


def test_a_saturated_machine_makes_the_results_invalid() -> None:
    shown = console(terminal=False)
    print_results(shown, assemble(run(0.9)))
    assert "INVALID: the machine was 90.0% busy" in text(shown)
