"""What is shown after the demo."""

import io

from rich.console import Console

from isocost.bench.assemble import Measurement, assemble
from isocost.bench.statistics import Percentiles
from isocost.demo.fleet import fleet
from isocost.demo.results import print_results

NODES = fleet(18101)


def console() -> Console:
    return Console(file=io.StringIO(), width=120, color_system=None, legacy_windows=False)


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def run(machine_busy: float | None) -> Measurement:
    return Measurement(
        policy="weighted_random",
        seed=1,
        results=(),
        log=(),
        nodes={node.name: node.rack for node in NODES},
        push_interval_ms=Percentiles(200.0, 207.0),
        wasm_bytes=123_456,
        envoy_cpu_s=None,
        machine_busy=machine_busy,
        versions={},
    )


def test_results_show_unknown_as_a_dash_and_name_every_node() -> None:
    shown = console()
    print_results(shown, assemble(run(0.5)))
    printed = text(shown)
    assert all(node.name in printed for node in NODES)
    assert "push interval p50 200 ms, p99 207 ms; table age at the pick p50 - ms" in printed
    assert "123,456 bytes" in printed and "machine 50.0% busy" in printed
    assert "INVALID" not in printed


def test_a_saturated_machine_makes_the_results_invalid() -> None:
    shown = console()
    print_results(shown, assemble(run(0.9)))
    assert "INVALID: the machine was 90.0% busy" in text(shown)
