"""Conditions for CI: read, checked before the run, and answered after it."""

from functools import cache
from typing import Any

import pytest

from isocost.bench.assemble import Measurement, assemble
from isocost.bench.comparison import Comparison, compare
from isocost.bench.condition import Condition
from isocost.bench.control_plane import FleetSample
from isocost.bench.report import ProcessCpu, Report
from isocost.bench.rounds import RoundResults
from isocost.errors import RejectedError
from tests.unit.bench.measured import answer
from tests.unit.bench.test_series import status

RUN = Measurement(
    seed=1,
    results=(
        answer(0.0, 800, node="gpu.a.1", kind="A"),
        answer(1.0, 900, node="gpu.a.1", kind="B"),
        answer(2.0, 100, failure="reset", node="b"),
        answer(3.0, 100, node="b"),
    ),
    versions={},
    samples=(FleetSample(0.5, (status("b", entropy=float("inf")),)),),
    machine_busy=0.5,
    processes=(ProcessCpu(2, "python", 0.9), ProcessCpu(1, "python", 0.1)),
)


def report() -> dict[str, Any]:
    return assemble(RUN).to_data()


@cache
def comparison() -> dict[str, Any]:
    schedule = [RoundResults(0, name, RUN.results) for name in ("a", "b", "b.c")]
    return compare(schedule, {"a": RUN, "b": RUN, "b.c": RUN}).to_data()


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("ttft_ms.p99>850", ("ttft_ms.p99", ">", 850)),
        (" nodes.n1.share >= 0.5 ", ("nodes.n1.share", ">=", 0.5)),
        ("goodput.fraction<1", ("goodput.fraction", "<", 1)),
        ("imbalance<=1e1", ("imbalance", "<=", 10)),
        ("failures.reset==0", ("failures.reset", "==", 0)),
        ("requests.failed!=-1", ("requests.failed", "!=", -1)),
        ("phases.slow+hang.ttft_ms.p50>1", ("phases.slow+hang.ttft_ms.p50", ">", 1)),
    ],
)
def test_a_condition_is_a_path_an_operator_and_a_number(
    text: str, parsed: tuple[str, str, float]
) -> None:
    condition = Condition.parse(text)
    assert (condition.path, condition.operator, condition.number) == parsed


@pytest.mark.parametrize(
    "text", ["", "ttft_ms.p99", "ttft_ms.p99>", ">850", "a=1", "a=>1", "a>b>1", "a<>1", "!a>1"]
)
def test_what_is_no_condition_is_answered_with_the_form_and_an_example(text: str) -> None:
    with pytest.raises(RejectedError) as caught:
        Condition.parse(text)
    said = str(caught.value)
    assert "PATH OP NUMBER with OP one of > >= < <= == !=, for example ttft_ms.p99>850" in said
    assert repr(text) in said


@pytest.mark.parametrize("number", ["850ms", "fast", "nan", "inf", "1,5"])
def test_a_limit_that_is_no_number_is_refused(number: str) -> None:
    with pytest.raises(RejectedError, match=f"'{number}' is not a number; write it without"):
        Condition.parse(f"ttft_ms.p99>{number}")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("ttft_ms.max", pytest.approx(900)),
        ("ttft_ms.count", 3),
        ("nodes.b.requests", 2),
        ("nodes.gpu.a.1.share", 0.5),
        ("nodes.gpu.a.1.series.requests.1", 1),
        ("nodes.b.series.entropy.0", float("inf")),
        ("kinds.A.ttft_ms.p50", pytest.approx(800)),
        ("phases.all.nodes.gpu.a.1.requests", 2),
        ("phases.all.requests.failed", 1),
        ("failures.reset", 1),
        ("failures.timeout", 0),
        ("phases.all.failures.connect", 0),
        ("series.sent.3", 1),
        ("ttft_cdf.0.1", pytest.approx(1 / 3)),
        ("processes.python.cpu_fraction", 0.9),
        ("valid", 1),
        ("interrupted", 0),
        ("trace.rate_per_s", None),
        ("filter.wasm_bytes", None),
        ("nodes.b.series.entropy.1", None),
    ],
)
def test_a_path_leads_to_the_reports_number(path: str, value: object) -> None:
    assert Condition.parse(f"{path}>0").value(report()) == value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("ratios.b.ttft_ms.p99.ratio", 1.0),
        ("ratios.b.c.ttft_ms.p99.ratio", 1.0),
        ("ratios.b.goodput.low", 1.0),
        ("targets.b.c.nodes.gpu.a.1.requests", 2),
        ("targets.a.ttft_ms.max", pytest.approx(900)),
        ("rounds", 1),
    ],
)
def test_a_path_leads_to_the_comparisons_number(path: str, value: object) -> None:
    assert Condition.parse(f"{path}>0").value(comparison()) == value


@pytest.mark.parametrize(
    ("operator", "truths"),
    [
        (">", (False, False, True)),
        (">=", (False, True, True)),
        ("<", (True, False, False)),
        ("<=", (True, True, False)),
        ("==", (False, True, False)),
        ("!=", (True, False, True)),
    ],
)
def test_a_condition_holds_as_its_operator_says(
    operator: str, truths: tuple[bool, bool, bool]
) -> None:
    for number, truth in zip((5, 4, 3), truths, strict=True):
        assert Condition.parse(f"requests.sent{operator}{number}").holds(4) is truth


def test_what_is_not_known_has_no_value() -> None:
    assert Condition.parse("filter.wasm_bytes>0").value(report()) is None
    assert Condition.parse("trace.requests!=4").value(report()) is None


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("ttft.p99", "the report has no 'ttft'; it has schema, policy, target, trace, requests,"),
        ("ttft_ms.p98", "ttft_ms has no 'p98'; it has count, mean, stdev, p50, p90, p95, p99, max"),
        ("ttft_ms", "ttft_ms is not a number: it has count, mean, stdev"),
        ("nodes.n1.shar", "nodes.n1 has no 'shar'; it has name, rack, requests, share"),
        ("nodes", "nodes is not a number: it is a list; its items go by their name"),
        ("nodes.n1", "nodes.n1 is not a number: it has name, rack"),
        ("faults.n1.start_s", "faults has no 'n1'; it is a list; its items go by their number"),
        ("series.ok.first", "series.ok has no 'first'; it is a list; its items go by their number"),
        ("kinds", "kinds is not a number: it has one entry for each name"),
        ("failures.rest", "failures has no 'rest'; it has connect, status_2xx"),
        ("policy", "policy is not a number"),
        ("imbalance_basis", "imbalance_basis is not a number"),
        ("nodes.n1.series.state.0", "nodes.n1.series.state.0 is not a number"),
        ("ttft_ms.p99.p99", "ttft_ms.p99 has nothing below it, also no 'p99'"),
        ("ttft_ms..p99", "ttft_ms has no ''"),
        ("targets.a.ttft_ms.p99", "the report has no 'targets'"),
    ],
)
def test_a_path_that_no_report_has_is_refused_before_the_run(path: str, said: str) -> None:
    with pytest.raises(RejectedError) as caught:
        Condition.parse(f"{path}>0").check(Report)
    assert str(caught.value).startswith(f"'{path}>0': {said}")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("ttft_ms.p99", "the report has no 'ttft_ms'; it has schema, baseline, rounds, targets,"),
        ("ratios.b.ttft_ms.p98.ratio", "ratios.b has no 'ttft_ms'; it has ttft_ms.p50, ttft_ms"),
        ("ratios.b.goodput", "ratios.b.goodput is not a number: it has ratio, low, high"),
        ("targets.a.ttft.p99", "targets.a has no 'ttft'; it has schema, policy"),
    ],
)
def test_a_path_that_no_comparison_has_is_refused_before_the_run(path: str, said: str) -> None:
    with pytest.raises(RejectedError) as caught:
        Condition.parse(f"{path}>0").check(Comparison)
    assert str(caught.value).startswith(f"'{path}>0': {said}")


@pytest.mark.parametrize("path", ["nodes.any.share", "nodes.a.b.ttft_p99_ms", "kinds.X.ok"])
def test_a_name_that_a_run_may_have_passes_before_it(path: str) -> None:
    Condition.parse(f"{path}>0").check(Report)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nodes.c.share", "nodes has no 'c' in this run; it has b, gpu.a.1"),
        ("kinds.C.ttft_ms.p99", "kinds has no 'C' in this run; it has A, B"),
        ("faults.0.start_s", "faults has no '0' in this run; it has nothing"),
    ],
)
def test_a_name_that_the_run_did_not_have_is_answered_with_those_it_had(
    path: str, said: str
) -> None:
    with pytest.raises(RejectedError) as caught:
        Condition.parse(f"{path}>0").value(report())
    assert said in str(caught.value).replace("it has b, gpu.a.1", "it has b, gpu.a.1")


def test_a_path_that_was_not_checked_before_the_run_is_checked_after_it() -> None:
    with pytest.raises(RejectedError, match="ttft_ms has no 'p98'; it has count"):
        Condition.parse("ttft_ms.p98>0").value(report())
    with pytest.raises(RejectedError, match="the report has no 'ttft_ms'; it has schema, baseline"):
        Condition.parse("ttft_ms.p99>0").value(comparison())
