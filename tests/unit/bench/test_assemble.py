"""The arithmetic of the report."""

import pytest

from isocost.bench import assemble
from isocost.bench.access_log import LoggedRequest
from isocost.bench.assemble import WeighedNode
from isocost.bench.replay import RequestResult


def result(
    request_id: str = "r", ttft_ms: float = 100.0, failure: str | None = None, status: int = 200
) -> RequestResult:
    return RequestResult(
        scheduled_s=1.0,
        sent_s=1.0,
        end_s=2.0,
        input_tokens=10,
        failure=failure,
        status=status,
        first_byte_s=1.0,
        first_token_s=1.0 + ttft_ms / 1e3,
        last_token_s=1.9,
        chunks=4,
        output_tokens=9,
        request_id=request_id,
    )


def logged(
    node: str | None = "a",
    request_id: str = "r",
    attempts: int = 1,
    reason: str = "picked",
    age_ms: float | None = 80.0,
) -> LoggedRequest:
    return LoggedRequest(request_id, 200, node, "rack", attempts, reason, age_ms)


def test_sent_is_ok_and_failed_and_rejected() -> None:
    results = [
        result(),
        result(failure="reset"),
        result(failure="status_4xx", status=429),
        result(failure="status_4xx", status=404),
    ]
    counts = assemble.count_requests(results, [logged(attempts=2), logged(attempts=1)])
    assert (counts.sent, counts.ok, counts.failed, counts.rejected) == (4, 1, 2, 1)
    assert counts.retried == 1
    assert assemble.count_requests(results, None).retried is None


def test_latencies_and_tokens_are_of_complete_answers() -> None:
    results = [result(ttft_ms=100), result(ttft_ms=300), result(ttft_ms=9_000, failure="reset")]
    ttft, tpot, e2e = assemble.latencies(results)
    assert ttft is not None and ttft.mean == pytest.approx(200) and ttft.max == pytest.approx(300)
    assert tpot is not None and tpot.max == pytest.approx(100)
    assert e2e is not None and e2e.mean == pytest.approx(1000)
    tokens = assemble.count_tokens(results)
    assert (tokens.input, tokens.output, tokens.output_per_s) == (20, 18, 9.0)


def test_nothing_sent_is_no_division_by_zero() -> None:
    assert assemble.latencies([]) == (None, None, None)
    assert assemble.count_tokens([]).output_per_s == 0.0
    (node,) = assemble.node_reports([WeighedNode("a", "r", 1.0)], [], [])
    assert (node.requests, node.share, node.ttft_p99_ms) == (0, None, None)
    assert assemble.imbalance([node]) is None


def test_a_nodes_figures_are_those_of_its_own_requests() -> None:
    nodes = [WeighedNode("a", "r1", 0.75), WeighedNode("b", "r2", 0.25), WeighedNode("c", "r2", 0)]
    results = [result("1", 100), result("2", 100), result("3", 500), result("lost", 900)]
    log = [logged("a", "1"), logged("a", "2"), logged("b", "3"), logged("b", "4"), logged(None)]
    a, b, c = assemble.node_reports(nodes, results, log)
    assert (a.requests, a.share, a.weight_share) == (2, 0.5, 0.75)
    assert (b.requests, b.share, b.weight_share) == (2, 0.5, 0.25)
    assert (c.requests, c.share, c.weight_share) == (0, 0.0, 0.0)
    assert (a.ttft_p99_ms, b.ttft_p99_ms) == (pytest.approx(100), pytest.approx(500))
    assert assemble.imbalance([a, b, c]) == pytest.approx(2.0)


def test_an_unknown_weight_is_unknown_not_zero() -> None:
    shares = assemble.weight_shares([WeighedNode("a", "r", None), WeighedNode("b", "r", 0.5)])
    assert shares == {"a": None, "b": 1.0}
    assert assemble.weight_shares([WeighedNode("a", "r", 0.0)]) == {"a": None}


def test_table_age_is_of_picks_only() -> None:
    log = [logged(age_ms=50), logged(age_ms=150), logged(reason="stale_table", age_ms=9_000)]
    ages = assemble.age_at_pick_ms(log)
    assert (ages.p50, ages.p99) == (100.0, pytest.approx(149))
