"""What happened when."""

import math

import pytest

from isocost.bench.control_plane import FleetSample, NodeStatus
from isocost.bench.series import MAX_STEPS, Steps, node_series, series, steps
from tests.unit.bench.measured import answer


def status(name: str = "a", **changes: object) -> NodeStatus:
    fields: dict[str, object] = {
        "name": name,
        "rack": "r",
        "state": "serving",
        "weight": 0.5,
        "entropy": 1.5,
        "in_flight": 3,
        "running": 2.0,
        "waiting": 1.0,
        "kv_usage": 0.25,
        "sample_age_s": 0.1,
        "clock_offset_ms": None,
    }
    return NodeStatus(**fields | changes)  # type: ignore[arg-type]


def test_a_request_counts_where_it_was_scheduled_not_where_it_ended() -> None:
    results = [
        answer(0.0, 100),
        answer(0.9, 300),
        answer(0.5, failure="reset"),
        answer(0.6, failure="status_4xx", status=429),
        answer(2.0, 4000),
    ]
    found = series(results, steps(results, 10.0))
    assert found.t_s == tuple(range(10))
    assert found.sent == (4, 0, 1, 0, 0, 0, 0, 0, 0, 0)
    assert found.ok == (2, 0, 1, 0, 0, 0, 0, 0, 0, 0)
    assert found.failed == found.rejected == (1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert found.ttft_p50_ms[:4] == (pytest.approx(200), None, pytest.approx(4000), None)
    assert found.ttft_p99_ms[0] == pytest.approx(298)
    assert found.e2e_p50_ms[0] == pytest.approx(400)
    assert found.tpot_p50_ms[0] == pytest.approx(25)


def test_the_whole_run_is_covered_also_where_nothing_was_sent() -> None:
    assert steps([], 0.0) == Steps(1.0, 1)
    assert steps([], 3.0) == Steps(1.0, 3)
    assert steps([answer(3.0)], 3.0) == Steps(1.0, 4)
    assert steps([answer(2.0)], 7.2) == Steps(1.0, 8)


def test_steps_get_longer_when_a_run_would_need_too_many() -> None:
    assert steps([], float(MAX_STEPS)).step_s == 1.0
    assert steps([], MAX_STEPS + 1.0) == Steps(2.0, 901)
    assert steps([answer(86_400.0)], 0.0).step_s == 60.0


def test_a_nodes_series_holds_what_it_answered_and_the_last_word_on_it() -> None:
    results = [answer(0.1, node="a"), answer(0.2, node="b"), answer(2.5, node="a"), answer(2.6)]
    samples = [
        FleetSample(1.9, (status(entropy=math.inf, state="suspect"),)),
        FleetSample(1.1, (status(), status("b"))),
        FleetSample(2.5, None),
        FleetSample(9.5, (status(),)),
        FleetSample(-0.5, (status(),)),
    ]
    found = node_series(["a", "b", "c"], results, samples, Steps(1.0, 3))
    assert found["a"].requests == (1, 0, 1)
    assert found["b"].requests == (1, 0, 0)
    assert found["c"].requests == (0, 0, 0)
    assert found["a"].entropy == (None, "inf", None)
    assert found["a"].state == (None, "suspect", None)
    assert found["b"].entropy == (None, 1.5, None)
    assert found["b"].weight == (None, 0.5, None)
    assert found["b"].in_flight == (None, 3, None)
    assert found["b"].running == (None, 2.0, None)
    assert found["b"].waiting == (None, 1.0, None)
    assert found["b"].kv_usage == (None, 0.25, None)
    assert found["b"].sample_age_s == (None, 0.1, None)
    assert found["b"].clock_offset_ms == (None, None, None)
    assert found["c"].state == (None, None, None)
