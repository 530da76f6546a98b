"""Who answered, and whether that was even."""

import pytest

from isocost.bench.control_plane import FleetSample
from isocost.bench.result import RequestResult
from isocost.bench.series import Steps, node_series
from isocost.bench.shares import (
    NodeReport,
    WeighedNode,
    attributed,
    imbalance,
    known_nodes,
    node_reports,
    parts,
)
from tests.unit.bench.measured import answer, logged
from tests.unit.bench.test_series import status


def reports(nodes: list[WeighedNode], results: list[RequestResult]) -> tuple[NodeReport, ...]:
    names = [node.name for node in nodes]
    return node_reports(nodes, results, node_series(names, results, [], Steps(1.0, 1)))


def test_the_log_knows_the_node_better_than_the_answer() -> None:
    results = [
        answer(request_id="1", node="front"),
        answer(request_id="2", node="b"),
        answer(request_id="3", node="c"),
        answer(node="d"),
        answer(failure="reset", request_id="5"),
    ]
    log = [logged("a", "1"), logged(None, "2"), logged("e", "5"), logged("x", None)]
    assert [result.node for result in attributed(results, log)] == ["a", "b", "c", "d", "e"]


def test_every_node_is_listed_that_was_named_seen_or_heard() -> None:
    samples = [
        FleetSample(0.0, (status("seen", weight=0.2), status("named", weight=9.0, capacity=4.0))),
        FleetSample(1.0, (status("seen", weight=0.4), status("blind", weight=None))),
        FleetSample(2.0, None),
        # Nothing is sent any more: an idle fleet's weights say nothing about the shares.
        FleetSample(9.0, (status("seen", weight=5.0, capacity=2.0),)),
    ]
    results = [answer(1.0, node="heard"), answer(0.0, node="named"), answer(0.0, node="logged")]
    log = [logged("logged"), logged("elsewhere")]
    listed = {"named": "r0", "silent": "r1"}
    assert known_nodes(listed, samples, log, results) == (
        WeighedNode("named", "r0", 9.0, 4.0),
        WeighedNode("silent", "r1", None),
        WeighedNode("blind", "r", None),
        WeighedNode("seen", "r", pytest.approx(0.3), 2.0),
        WeighedNode("heard", None, None),
        WeighedNode("logged", "rack", None),
    )


def test_a_nodes_figures_are_those_of_its_own_requests() -> None:
    nodes = [
        WeighedNode("a", "r1", 0.75, 3),
        WeighedNode("b", "r2", 0.25, 2),
        WeighedNode("c", "r2", 0, None),
    ]
    results = [
        answer(ttft_ms=100, node="a"),
        answer(ttft_ms=9000, node="a", failure="truncated"),
        answer(ttft_ms=500, node="b"),
        answer(ttft_ms=500, node="b"),
        answer(ttft_ms=900),
    ]
    a, b, c = reports(nodes, results)
    assert (a.requests, a.share, a.weight_share) == (2, 0.5, 0.75)
    assert (b.requests, b.share, b.weight_share) == (2, 0.5, 0.25)
    assert (c.requests, c.share, c.weight_share) == (0, 0.0, 0.0)
    assert (a.ttft_p99_ms, b.ttft_p99_ms) == (pytest.approx(100), pytest.approx(500))
    assert c.ttft_p99_ms is None
    assert (a.capacity_share, b.capacity_share, c.capacity_share) == (0.6, 0.4, None)


def test_without_a_known_node_no_share_is_known() -> None:
    (node,) = reports([WeighedNode("a", "r", 1.0)], [answer()])
    assert (node.requests, node.share) == (0, None)


def test_an_unknown_weight_is_unknown_not_zero() -> None:
    assert parts({"a": None, "b": 0.5}) == {"a": None, "b": 1.0}
    assert parts({"a": 0.0}) == {"a": None}


SHARES = {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize(
    ("weights", "capacities", "ratio", "basis"),
    [
        ((0.75, 0.25), (3, 2), 1.25, "capacity"),
        ((0.75, 0.25), (1, None), 2.0, "weight"),
        ((1.0, 0.0), (None, None), 0.5, "weight"),
        ((0.75, None), (3, 2), 1.25, "capacity"),
        ((None, None), (3, None), 1.0, "equal"),
        ((0.0, 0.0), (None, None), 1.0, "equal"),
    ],
)
def test_shares_are_compared_with_the_best_basis_that_every_node_has(
    weights: tuple[float | None, ...],
    capacities: tuple[float | None, ...],
    ratio: float,
    basis: str,
) -> None:
    nodes = [
        WeighedNode(name, "r", weight, capacity)
        for name, weight, capacity in zip("ab", weights, capacities, strict=True)
    ]
    assert imbalance(nodes, SHARES) == (pytest.approx(ratio), basis)


def test_without_nodes_or_shares_no_imbalance_is_known() -> None:
    assert imbalance([], {}) == (None, None)
    assert imbalance([WeighedNode("a", "r", 1.0)], {"a": None}) == (None, "weight")
