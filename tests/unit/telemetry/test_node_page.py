"""What a node tells of its clock and of its work, whatever it writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isocost.errors import TelemetryError
from isocost.model import ABSENT, UNSUPPORTED, Signal, measured
from isocost.telemetry.node_page import NodePage, read_page


@pytest.mark.parametrize(
    ("age", "signal"),
    [
        (1500, measured(1.5)),
        (0.0, measured(0.0)),
        # By a clock that was set back they began in the future.
        (-4000, measured(0.0)),
        (None, ABSENT),
        ("unsupported", UNSUPPORTED),
        ("absent", ABSENT),
        (True, ABSENT),
        (float("nan"), ABSENT),
        (float("inf"), ABSENT),
        ([], ABSENT),
    ],
)
def test_the_age_is_a_number_or_is_not_known(age: object, signal: Signal) -> None:
    page = json.dumps({"wall_unix_ms": 2000, "kv_cache_age_ms": age})
    assert read_page(page) == NodePage(2.0, signal)


def test_a_page_without_an_age_does_not_have_it() -> None:
    assert read_page('{"wall_unix_ms": 2000}') == NodePage(2.0, UNSUPPORTED)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"wall_unix_ms": "x"}', '{"wall_unix_ms": true}', "[" * 9999]
)
def test_a_page_without_a_clock_is_refused(text: str) -> None:
    with pytest.raises(TelemetryError):
        read_page(text)


@pytest.mark.parametrize("wall", [-1, 1e16, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_refused(wall: float) -> None:
    with pytest.raises(TelemetryError):
        read_page(json.dumps({"wall_unix_ms": wall}))


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_any_json_is_a_page_or_is_refused(value: object) -> None:
    try:
        page = read_page(json.dumps({"wall_unix_ms": 1, "kv_cache_age_ms": value}))
    except TelemetryError:
        return
    assert page.kv_cache_age_s.value >= 0.0
