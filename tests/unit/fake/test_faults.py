"""Orders of faults are read strictly."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from isocost.fake.faults import (
    KINDS,
    ClockSkew,
    Delay,
    Hang,
    Loss,
    Order,
    OutOfMemory,
    Refuse,
    Reset,
    Restart,
    Slow,
    StaleMetrics,
    Status,
    parse_orders,
)
from isocost.fake.strict import BadRequestError

MINIMAL: dict[str, dict[str, object]] = {
    "slow": {"factor": 2},
    "hang": {},
    "status": {"status": 500},
    "refuse": {"for_s": 1},
    "reset": {},
    "oom": {"for_s": 1},
    "restart": {"down_s": 1},
    "stale_metrics": {},
    "frozen_metrics": {},
    "clock_skew": {"seconds": -3},
    "delay": {"ms": 10},
    "loss": {"fraction": 0.1},
}


def test_every_kind_can_be_ordered() -> None:
    assert set(MINIMAL) == set(KINDS)
    for name, more in MINIMAL.items():
        assert parse_orders({"fault": name, **more})[0].fault.name == name


@pytest.mark.parametrize(
    ("data", "order"),
    [
        ({"fault": "slow", "factor": 3, "for_s": 60}, Order(Slow(3.0), 0.0, 60.0)),
        ({"fault": "hang", "after_s": 5, "for_s": None}, Order(Hang(), 5.0, None)),
        ({"fault": "status", "status": 503}, Order(Status(503, None))),
        ({"fault": "status", "status": 429, "requests": 5}, Order(Status(429, 5))),
        ({"fault": "refuse", "for_s": 2}, Order(Refuse(), 0.0, 2.0)),
        ({"fault": "reset"}, Order(Reset(2))),
        ({"fault": "reset", "chunks": 0}, Order(Reset(0))),
        ({"fault": "oom", "for_s": 2}, Order(OutOfMemory(), 0.0, 2.0)),
        ({"fault": "restart", "down_s": 2}, Order(Restart(2.0), 0.0, 2.0)),
        ({"fault": "restart", "for_s": 2}, Order(Restart(2.0), 0.0, 2.0)),
        ({"fault": "restart", "down_s": 2, "for_s": 2}, Order(Restart(2.0), 0.0, 2.0)),
        ({"fault": "stale_metrics"}, Order(StaleMetrics())),
        ({"fault": "clock_skew", "seconds": -90}, Order(ClockSkew(-90.0))),
        ({"fault": "delay", "ms": 80}, Order(Delay(80.0, 0.0))),
        ({"fault": "delay", "ms": 80, "jitter_ms": 20}, Order(Delay(80.0, 20.0))),
        ({"fault": "loss", "fraction": 0.02}, Order(Loss(0.02))),
    ],
)
def test_an_order_is_read_with_its_defaults(data: dict[str, object], order: Order) -> None:
    assert parse_orders(data) == [order]


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_documented_with_its_parameters(name: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "fake-node.md"
    (row,) = [line for line in page.read_text().splitlines() if line.startswith(f"| `{name}` |")]
    parameters = [field.name for field in dataclasses.fields(KINDS[name])]  # type: ignore[arg-type]
    assert [name for name in parameters if f"`{name}`" not in row] == []


def test_a_list_is_read_in_its_order() -> None:
    orders = parse_orders([{"fault": "hang"}, {"fault": "loss", "fraction": 0.5, "after_s": 1}])
    assert orders == [Order(Hang()), Order(Loss(0.5), 1.0)]


@pytest.mark.parametrize(
    ("data", "field", "allowed"),
    [
        (5, "(order)", "must be an object"),
        ({}, "fault", "must be one of slow, hang, status"),
        ({"fault": "explode"}, "fault", "'explode' is not allowed; must be one of slow"),
        ({"fault": ["slow"]}, "fault", "must be one of slow"),
        ({"fault": "slow"}, "factor", "a number between 1 and 1000"),
        ({"fault": "slow", "factor": 0.5}, "factor", "a number between 1 and 1000"),
        ({"fault": "slow", "factor": "3"}, "factor", "a number between 1 and 1000"),
        ({"fault": "slow", "factor": 2, "chunks": 1}, "chunks", "known here: after_s, factor"),
        ({"fault": "hang", "for_s": 0}, "for_s", "a number between 0.01 and 86400"),
        ({"fault": "hang", "after_s": -1}, "after_s", "a number between 0 and 86400"),
        ({"fault": "status", "status": 200}, "status", "an integer between 400 and 599"),
        ({"fault": "status"}, "status", "an integer between 400 and 599"),
        ({"fault": "status", "status": 500, "requests": 0}, "requests", "an integer between 1"),
        ({"fault": "refuse"}, "for_s", "is needed: nobody can reach a node in refuse"),
        ({"fault": "oom"}, "for_s", "is needed: nobody can reach a node in oom"),
        ({"fault": "restart"}, "down_s", "a number between 0.01 and 86400"),
        ({"fault": "restart", "down_s": 1, "for_s": 2}, "for_s", "left out, or down_s: 1"),
        ({"fault": "reset", "chunks": -1}, "chunks", "an integer between 0"),
        ({"fault": "clock_skew"}, "seconds", "a number between -86400 and 86400"),
        ({"fault": "delay", "ms": 5, "jitter_ms": 6}, "jitter_ms", "a number between 0 and 5"),
        ({"fault": "loss", "fraction": 1}, "fraction", "a number between 0 and 0.9"),
        ([{"fault": "hang"}, {"fault": "slow"}], "1.factor", "1.factor: must be a number"),
        ([5], "0.(order)", "must be an object"),
    ],
)
def test_a_bad_order_names_the_field_and_what_is_allowed(
    data: object, field: str, allowed: str
) -> None:
    with pytest.raises(BadRequestError) as error:
        parse_orders(data)
    assert error.value.field == field
    assert allowed in str(error.value)
