"""A run cut at its faults."""

import pytest

from isocost.bench.phases import OrderedFault, PhaseRequests, phases
from tests.unit.bench.measured import answer


def fault(name: str, start_s: float, end_s: float | None, node: str = "a") -> OrderedFault:
    return OrderedFault(node, name, start_s, end_s, {})


def spans(faults: list[OrderedFault], duration_s: float = 30.0) -> list[tuple[str, float, float]]:
    return [(p.name, p.start_s, p.end_s) for p in phases([], faults, [], duration_s)]


def test_a_run_without_faults_is_one_phase() -> None:
    assert spans([]) == [("all", 0, 30)]


def test_a_fault_has_a_before_and_an_after() -> None:
    assert spans([fault("slow", 10, 20)]) == [
        ("before", 0, 10),
        ("slow", 10, 20),
        ("after", 20, 30),
    ]


def test_faults_that_overlap_are_joined_while_they_do() -> None:
    assert spans([fault("hang", 12, 25), fault("slow", 10, 20)]) == [
        ("before", 0, 10),
        ("slow", 10, 12),
        ("slow+hang", 12, 20),
        ("hang", 20, 25),
        ("after", 25, 30),
    ]


def test_a_fault_of_several_nodes_is_named_once() -> None:
    assert spans([fault("slow", 10, 20), fault("slow", 10, 20, "b")])[1] == ("slow", 10, 20)


def test_a_name_that_comes_again_gets_a_number() -> None:
    faults = [fault("oom", 5, 6), fault("oom", 10, 11), fault("oom", 15, 16)]
    names = [name for name, _, _ in spans(faults)]
    assert names == ["before", "oom", "between", "oom 2", "between 2", "oom 3", "after"]


def test_a_fault_at_the_runs_edges_leaves_no_empty_phase() -> None:
    assert spans([fault("slow", 0, 30)]) == [("slow", 0, 30)]
    assert spans([fault("slow", 10, None)]) == [("before", 0, 10), ("slow", 10, 30)]
    assert spans([fault("slow", 10, 99)]) == [("before", 0, 10), ("slow", 10, 30)]
    assert spans([fault("slow", 40, 50)]) == [("before", 0, 30)]


@pytest.mark.parametrize("start_s", [30, 40])
def test_a_fault_that_starts_after_the_runs_end_does_not_count(start_s: float) -> None:
    names = [name for name, _, _ in spans([fault("slow", 5, 10), fault("oom", start_s, 50)])]
    assert names == ["before", "slow", "after"]


def test_a_request_belongs_to_the_phase_of_its_scheduled_time() -> None:
    results = [
        answer(9.99, 100, e2e_ms=5000, node="a"),
        answer(10.0, 700, node="a"),
        answer(15.0, 500, node="b"),
        answer(16.0, failure="reset", node="b"),
        answer(16.5, failure="status_4xx", status=429),
        answer(30.0, 100, node="b"),
    ]
    before, slow, after = phases(results, [fault("slow", 10, 20)], ["a", "b", "c"], 30.0)
    assert before.requests == PhaseRequests(1, 1, 0, 0)
    assert slow.requests == PhaseRequests(4, 2, 1, 1)
    assert after.requests == PhaseRequests(1, 1, 0, 0)
    assert slow.failures == {"reset": 1, "status_4xx": 1}
    assert before.failures == {}
    assert slow.ttft_ms.p50 == pytest.approx(600) and slow.ttft_ms.count == 2
    assert slow.e2e_ms.max == pytest.approx(1400)
    a, b, c = slow.nodes
    assert (a.name, a.requests, a.ttft_p50_ms) == ("a", 1, pytest.approx(700))
    assert (b.name, b.requests, b.ttft_p50_ms) == ("b", 2, pytest.approx(500))
    assert (b.e2e_p50_ms, b.tpot_p50_ms) == (pytest.approx(1000), pytest.approx(62.5))
    assert (c.requests, c.ttft_p50_ms, c.tpot_p50_ms, c.e2e_p50_ms) == (0, None, None, None)
