"""Scenario files, and what the nodes are told of them."""

from pathlib import Path

import pytest

from isocost.bench.phases import OrderedFault
from isocost.bench.rounds import Slice
from isocost.bench.scenario import Scenario, read_scenario
from isocost.errors import ConfigError

N1, N2 = "http://127.0.0.1:18101", "http://127.0.0.1:18102"
GOOD = f"""
nodes: {{n1: "{N1}/", n2: "{N2}"}}
faults:
  - {{node: n1, fault: slow, factor: 3, start_s: 10, end_s: 20}}
  - {{node: n2, fault: hang, start_s: 12.5}}
  - {{node: n1, fault: delay, ms: 5, jitter_ms: 1, start_s: 15, end_s: 16}}
"""


def scenario(tmp_path: Path, text: str = GOOD) -> Scenario:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    return read_scenario(path)


def test_every_fault_is_one_of_the_report_with_its_parameters(tmp_path: Path) -> None:
    assert scenario(tmp_path).ordered() == (
        OrderedFault("n1", "slow", 10.0, 20.0, {"factor": 3}),
        OrderedFault("n2", "hang", 12.5, None, {}),
        OrderedFault("n1", "delay", 15.0, 16.0, {"ms": 5, "jitter_ms": 1}),
    )


def test_a_whole_run_orders_everything_at_its_start(tmp_path: Path) -> None:
    assert scenario(tmp_path).orders(Slice(0.0, 14.0, ()), last=True) == {
        N1: [
            {"fault": "slow", "factor": 3, "after_s": 10.0, "for_s": 10.0},
            {"fault": "delay", "ms": 5, "jitter_ms": 1, "after_s": 15.0, "for_s": 1.0},
        ],
        N2: [{"fault": "hang", "after_s": 12.5, "for_s": None}],
    }


def test_a_part_of_the_trace_gets_the_part_of_each_fault_that_is_in_it(tmp_path: Path) -> None:
    read = scenario(tmp_path)
    assert read.orders(Slice(0.0, 5.0, ()), last=False) == {}
    assert read.orders(Slice(5.0, 13.0, ()), last=False) == {
        N1: [{"fault": "slow", "factor": 3, "after_s": 5.0, "for_s": 3.0}],
        N2: [{"fault": "hang", "after_s": 7.5, "for_s": 0.5}],
    }
    assert read.orders(Slice(15.5, 30.0, ()), last=True) == {
        N1: [
            {"fault": "slow", "factor": 3, "after_s": 0.0, "for_s": 4.5},
            {"fault": "delay", "ms": 5, "jitter_ms": 1, "after_s": 0.0, "for_s": 0.5},
        ],
        N2: [{"fault": "hang", "after_s": 0.0, "for_s": None}],
    }


def test_the_rehearsal_is_the_whole_scenario_hours_later(tmp_path: Path) -> None:
    orders = scenario(tmp_path).rehearsal()
    assert [order["fault"] for order in orders[N1]] == ["slow", "delay"]
    assert all(order["after_s"] >= 43_200 for of_node in orders.values() for order in of_node)
    assert max(order["after_s"] for of_node in orders.values() for order in of_node) <= 86_400


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nodes: {}\nfaults: []", "nodes"),
        ("faults: [{node: n1, fault: hang}]", "nodes: it is required"),
        (GOOD.replace("node: n2", "node: n3"), "faults.1.node: 'n3' .* one of n1, n2"),
        (GOOD.replace("end_s: 20", "end_s: 10"), "faults.0.end_s: 10.0 .* after start_s"),
        (GOOD.replace("end_s: 20", "end_s: soon"), "faults.0.end_s: 'soon'"),
        (GOOD.replace("start_s: 12.5", "start_s: -1"), "faults.1.start_s: -1"),
        (GOOD.replace("start_s: 12.5", "start_s: 50000"), "faults.1.start_s: 50000"),
        (GOOD.replace("fault: hang,", ""), "faults.1.fault: it is required"),
        (GOOD.replace("factor: 3", "for_s: 3"), "faults.0.for_s: 3 .* start_s and end_s say"),
        (GOOD.replace("factor: 3", "factor: 2024-01-01"), "faults.0.factor: a date .* JSON"),
        (GOOD.replace("factor: 3", "factor: .inf"), "faults.0.factor: inf"),
        (GOOD.replace(f'"{N2}"', '"127.0.0.1:18102"'), "nodes.n2: '127.0.0.1:18102'"),
        (GOOD.replace(N2, N2 + "/x"), "nodes.n2: .* a node's URL"),
        (GOOD.replace(N2, N2 + "?a=b"), "nodes.n2: .* a node's URL"),
        (GOOD + "when: now", "when: unknown key"),
        ("nodes: [", "not YAML"),
        ("- 1", "top level"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=rf"scenario.yaml: .*{named}"):
        scenario(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: .*not readable"):
        read_scenario(tmp_path / "absent.yaml")
