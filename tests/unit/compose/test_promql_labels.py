"""The check of the dashboard's queries notices what it is for."""

from __future__ import annotations

import pytest

from tests.compose.promql_labels import NotExportedError, labels_of

EXPORTED = {
    "requests_total": {"node", "outcome"},
    "weight": {"node"},
    "tick_seconds_bucket": {"le"},
    "age": {"instance"},
}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ('requests_total{outcome="good"}', {"node", "outcome"}),
        ("sum by (node) (rate(requests_total[1m]))", {"node"}),
        ("sum without (outcome) (requests_total)", {"node"}),
        ("sum(weight)", set()),
        ("sum(weight) or vector(0)", set()),
        ("weight / scalar(sum(weight) > 0)", {"node"}),
        ("1 - weight", {"node"}),
        ("weight * on (node) sum by (node) (requests_total)", {"node"}),
        ("requests_total and on (node) weight", {"node", "outcome"}),
        ("histogram_quantile(0.9, sum by (le) (rate(tick_seconds_bucket[1m])))", set()),
        ("time() - max(timestamp(age))", set()),
        ("max_over_time(weight[5m:10s])", {"node"}),
        ("time()", None),
    ],
)
def test_an_expression_has_the_labels_that_prometheus_gives_it(
    text: str, labels: set[str] | None
) -> None:
    assert labels_of(text, EXPORTED) == labels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sum(request_total)", "nobody exports request_total"),
        ('weight{rack="a"}', "'rack'"),
        ("sum by (rack) (weight)", "'rack'"),
        ("sum by (outcome) (sum by (node) (requests_total))", "'outcome'"),
        ("weight * on (outcome) requests_total", "'outcome'"),
        ("weight / age", "never match"),
        ("weight / sum(weight)", "never match"),
        ("histogram_quantile(0.9, sum(rate(tick_seconds_bucket[1m])))", "'le'"),
        ('{__name__=~"weight|age"}', "nobody exports None"),
    ],
)
def test_what_nobody_exports_is_named(text: str, message: str) -> None:
    with pytest.raises(NotExportedError, match=message):
        labels_of(text, EXPORTED)


@pytest.mark.parametrize("text", ["rate(weight)", "sum(weight", "nothing_known(weight)"])
def test_what_is_no_promql_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        labels_of(text, EXPORTED)
