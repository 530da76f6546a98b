"""From what was measured to the report."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocost.bench import assemble
from isocost.bench.access_log import LoggedRequest
from isocost.bench.assemble import Measurement
from isocost.bench.control_plane import FleetSample
from isocost.bench.goodput import Slo
from isocost.bench.phases import OrderedFault
from isocost.bench.report import Lateness, ProcessCpu, Samples, TraceInfo
from isocost.bench.result import FailureKind, RequestResult
from tests.unit.bench.measured import answer, logged
from tests.unit.bench.test_series import status


def measured(results: tuple[RequestResult, ...] = (), **changes: object) -> Measurement:
    return Measurement(seed=1, results=results, versions={}, **changes)  # type: ignore[arg-type]


def test_sent_is_ok_and_failed_and_rejected() -> None:
    results = [
        answer(),
        answer(failure="reset"),
        answer(failure="status_4xx", status=429),
        answer(failure="status_4xx", status=404),
    ]
    counts = assemble.count_requests(results, [logged(attempts=2), logged(attempts=1)])
    assert (counts.sent, counts.ok, counts.failed, counts.rejected) == (4, 1, 2, 1)
    assert counts.retried == 1
    assert assemble.count_requests(results, []).retried is None


def test_latencies_tokens_and_the_cdf_are_of_complete_answers() -> None:
    run = measured((answer(0, 100), answer(0, 300), answer(1, 9000, failure="truncated")))
    report = assemble.assemble(run)
    assert report.ttft_ms.mean == pytest.approx(200) and report.ttft_ms.count == 2
    assert report.tpot_ms.max == pytest.approx(37.5)
    assert report.e2e_ms.max == pytest.approx(600)
    assert report.ttft_cdf == ((pytest.approx(100), 0.5), (pytest.approx(300), 1.0))
    assert (report.tokens.input, report.tokens.output) == (20, 18)
    assert report.failures == {"truncated": 1}


def test_rates_are_over_the_trace_and_over_what_came_after_its_end() -> None:
    late = (answer(0.0, 1000, e2e_ms=12_000),)
    for trace, duration_s in ((None, 12.0), (TraceInfo("t", 1, 5.0), 12.0)):
        report = assemble.assemble(measured(late, trace=trace))
        assert report.tokens.output_per_s == pytest.approx(9 / duration_s)
        assert report.goodput.requests_per_s == pytest.approx(1 / duration_s)
        assert report.phases[-1].end_s == report.series.t_s[-1] + 1.0 == duration_s
    report = assemble.assemble(measured((answer(),), trace=TraceInfo("t", 1, 20.0)))
    assert report.goodput.requests_per_s == pytest.approx(1 / 20)
    assert len(report.series.t_s) == 20


def test_answers_without_usage_have_tokens_that_are_not_known() -> None:
    mute = replace(answer(), output_tokens=None)
    tokens = assemble.count_tokens([mute, mute], 2.0)
    assert (tokens.output, tokens.output_per_s, tokens.answers_without_usage) == (None, None, 2)
    tokens = assemble.count_tokens([mute, answer()], 2.0)
    assert (tokens.output, tokens.output_per_s, tokens.answers_without_usage) == (9, 4.5, 1)


def test_of_each_kind_of_failure_the_first_that_was_said_is_kept() -> None:
    def failed(kind: FailureKind, status: int | None, detail: str | None) -> RequestResult:
        return replace(answer(failure=kind), status=status, detail=detail)

    results = [
        answer(),
        failed("status_4xx", 404, "no such model"),
        failed("status_4xx", 401, "no such key"),
        failed("connect", None, "refused"),
        failed("bad_event", 200, '{"error": 1}'),
        failed("timeout", None, None),
        failed("status_5xx", 503, None),
    ]
    assert assemble.failure_examples(results) == {
        "status_4xx": "HTTP 404 no such model",
        "connect": "refused",
        "bad_event": '{"error": 1}',
        "status_5xx": "HTTP 503",
    }


def test_samples_say_how_often_the_control_plane_answered() -> None:
    samples = (FleetSample(0.0, ()), FleetSample(1.0, None), FleetSample(2.0, None))
    assert assemble.assemble(measured(samples=samples)).samples == Samples(3, 1)


def test_an_interrupt_is_in_the_report() -> None:
    assert assemble.assemble(measured()).to_data()["interrupted"] is False
    assert assemble.assemble(measured(interrupted=True)).to_data()["interrupted"] is True


def test_nothing_sent_is_no_division_by_zero() -> None:
    report = assemble.assemble(measured())
    assert (report.tokens.output, report.tokens.output_per_s) == (None, None)
    assert report.samples is None
    assert (report.ttft_ms.count, report.ttft_ms.p99) == (0, None)
    assert report.lateness_ms == Lateness(None, None, None)
    assert (report.nodes, report.imbalance, report.imbalance_basis) == ((), None, None)
    assert [phase.name for phase in report.phases] == ["all"]
    assert report.series.sent == (0,)
    json.loads(report.to_json())


def test_lateness_is_the_generators_own() -> None:
    late = assemble.lateness_ms([answer(1.0, late_ms=ms) for ms in (0, 1, 2, 3, 50)])
    assert (late.p50, late.max) == (pytest.approx(2), pytest.approx(50))
    assert late.p99 == pytest.approx(48.12)


def test_each_kind_has_its_own_figures() -> None:
    results = [answer(ttft_ms=100, kind="A"), answer(failure="reset", kind="A")]
    results += [answer(ttft_ms=900, kind="C"), answer(ttft_ms=5)]
    kinds = assemble.kind_reports(results)
    assert list(kinds) == ["A", "C"]
    assert (kinds["A"].requests, kinds["A"].ok) == (2, 1)
    assert kinds["A"].ttft_ms.max == pytest.approx(100)
    assert kinds["C"].e2e_ms.max == pytest.approx(1800)


def test_table_age_is_of_picks_only() -> None:
    log = [logged(age_ms=50), logged(age_ms=150), logged(reason="stale_table", age_ms=9_000)]
    ages = assemble.age_at_pick_ms(log)
    assert (ages.p50, ages.p99) == (100.0, pytest.approx(149))


def test_the_busiest_twenty_processes_are_named_in_order() -> None:
    processes = tuple(ProcessCpu(pid, f"p{pid}", pid / 100) for pid in range(30, 0, -1))
    report = assemble.assemble(measured(processes=processes))
    assert [found.pid for found in report.processes] == list(range(30, 10, -1))


def test_envoys_cpu_is_per_request_sent() -> None:
    report = assemble.assemble(measured((answer(), answer(failure="reset")), envoy_cpu_s=0.001))
    assert report.filter.envoy_cpu_us_per_request == pytest.approx(500)
    assert assemble.assemble(measured(envoy_cpu_s=1.0)).filter.envoy_cpu_us_per_request is None


def test_a_request_counts_for_the_node_that_the_log_names() -> None:
    results = (answer(0.0, request_id="1", node="front"), answer(1.0, failure="reset"))
    report = assemble.assemble(measured(results, log=(logged("a", "1", attempts=2),)))
    (node,) = report.nodes
    assert (node.name, node.rack, node.requests, node.series.requests) == ("a", "rack", 1, (1, 0))
    assert (report.phases[0].nodes[0].name, report.phases[0].nodes[0].requests) == ("a", 1)
    assert report.requests.retried == 1


def test_weights_and_states_come_from_the_control_planes_samples() -> None:
    run = measured(
        (answer(0.0, node="a"), answer(1.0, node="a"), answer(1.0, node="b"), answer(1.0)),
        samples=(FleetSample(0.2, (status("a", weight=0.5), status("b", weight=0.5))),),
    )
    report = assemble.assemble(run)
    assert [(node.name, node.rack, node.weight_share) for node in report.nodes] == [
        ("a", "r", 0.5),
        ("b", "r", 0.5),
    ]
    assert (report.imbalance, report.imbalance_basis) == (pytest.approx(4 / 3), "weight")
    assert report.nodes[0].series.state == ("serving", None)


nodes = st.sampled_from(["a", "b", "c", None])
requests = st.builds(
    answer,
    at_s=st.floats(0, 40),
    ttft_ms=st.floats(0.1, 5000),
    failure=st.sampled_from([None, None, "reset", "timeout", "status_4xx"]),
    status=st.sampled_from([200, 429]),
    node=nodes,
    kind=st.sampled_from(["A", "B"]),
    request_id=st.sampled_from(["1", "2", "3", None]),
    output_tokens=st.integers(0, 9),
)
entries = st.builds(logged, node=nodes, request_id=st.sampled_from(["1", "2", "3", None]))
faults = st.builds(
    OrderedFault,
    node=st.just("a"),
    fault=st.sampled_from(["slow", "oom"]),
    start_s=st.floats(0, 60),
    end_s=st.none() | st.floats(0, 60),
    parameters=st.just({}),
)


@settings(deadline=None)
@given(st.lists(requests, max_size=40), st.lists(entries, max_size=4), st.lists(faults, max_size=3))
def test_the_parts_of_a_report_add_up_to_the_whole(
    results: list[RequestResult], log: list[LoggedRequest], ordered: list[OrderedFault]
) -> None:
    # A rejected request has failed.
    results = [result for result in results if result.failure or result.status != 429]
    run = measured(
        tuple(results),
        log=tuple(log),
        faults=tuple(ordered),
        slo=Slo(ttft_ms=1000, tpot_ms=100),
        trace=TraceInfo("t", len(results), 30.0),
    )
    report = assemble.assemble(run)
    counts, series, phases = report.requests, report.series, report.phases
    assert counts.sent == counts.ok + counts.failed + counts.rejected == len(results)
    assert sum(report.failures.values()) == counts.failed + counts.rejected
    assert sum(series.sent) == sum(phase.requests.sent for phase in phases) == counts.sent
    assert sum(series.ok) == sum(phase.requests.ok for phase in phases) == counts.ok
    assert sum(series.failed) == sum(phase.requests.failed for phase in phases) == counts.failed
    rejected = sum(phase.requests.rejected for phase in phases)
    assert sum(series.rejected) == rejected == counts.rejected
    by_phase: Counter[str] = sum((Counter(phase.failures) for phase in phases), Counter())
    assert by_phase == Counter(report.failures)
    assert sum(kind.requests for kind in report.kinds.values()) == counts.sent
    assert phases[0].start_s == 0 and all(phase.start_s < phase.end_s for phase in phases)
    assert [p.start_s for p in phases[1:]] == [p.end_s for p in phases[:-1]]
    assert len({phase.name for phase in phases}) == len(phases)
    for node in report.nodes:
        of_node = [part for phase in phases for part in phase.nodes if part.name == node.name]
        assert node.requests == sum(node.series.requests) == sum(n.requests for n in of_node)
        assert len(node.series.requests) == len(node.series.state) == len(series.t_s)
    attributed = sum(node.requests for node in report.nodes)
    assert attributed <= counts.sent
    if attributed:
        shares = [node.share for node in report.nodes if node.share is not None]
        assert sum(shares) == pytest.approx(1)
        # Of as many equal nodes the one with most has at least its due.
        assert report.imbalance is not None and report.imbalance >= 1 - 1e-9
    if results:
        fraction, rate = report.goodput.fraction, report.goodput.requests_per_s
        assert fraction is not None and 0 <= fraction <= counts.ok / counts.sent
        assert rate is not None and rate <= counts.ok / 30.0
    assert json.loads(report.to_json()) == report.to_data()
