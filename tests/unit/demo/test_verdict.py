"""What makes a run of the demo a failure."""

from dataclasses import replace

import pytest

from isocost.bench.access_log import LoggedRequest
from isocost.bench.assemble import Measurement, assemble
from isocost.bench.result import RequestResult
from isocost.demo.verdict import problems

OK = RequestResult(
    scheduled_s=0.0, sent_s=0.0, end_s=1.0, input_tokens=1, failure=None, request_id="1"
)
PICKED = LoggedRequest("1", 200, "a", "rack", 1, "picked", 80.0)
RUN = Measurement(
    policy="weighted_random",
    seed=1,
    results=(OK, replace(OK, request_id="2")),
    log=(PICKED, replace(PICKED, request_id="2", node="b")),
    nodes={"a": "rack", "b": "rack"},
    versions={},
)


def verdict(**changes: object) -> list[str]:
    run = replace(RUN, **changes)  # type: ignore[arg-type]
    return problems(assemble(run), run)


def test_a_run_with_every_request_answered_and_picked_is_good() -> None:
    assert verdict() == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"results": (OK, replace(OK, failure="reset"))}, "1 requests failed: reset 1"),
        ({"log": (*RUN.log, PICKED)}, "Envoy logged 3 requests of 2"),
        (
            {"log": (RUN.log[0], replace(RUN.log[1], reason="no_table"))},
            "1 requests were not picked by the filter: no_table 1",
        ),
        (
            {"log": (RUN.log[0], replace(RUN.log[1], reason=None))},
            "1 requests were not picked by the filter: no decision 1",
        ),
        ({"log": (PICKED, PICKED)}, "nodes without a request: b"),
        ({"results": (), "log": ()}, "nodes without a request: a, b"),
    ],
)
def test_each_flaw_is_named(changes: dict[str, object], problem: str) -> None:
    assert problem in verdict(**changes)
