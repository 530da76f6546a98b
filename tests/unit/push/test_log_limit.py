"""The log of a bad client stays short and still says how much was left out."""

import logging

import pytest

from isocost.push.log_limit import PERIOD_S, LimitedLog


def test_each_subject_has_one_line_a_period_and_a_count_of_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = [0.0]
    limited = LimitedLog(logging.getLogger("test"), lambda: now_s[0])
    for subject in ("table", "table", "roster", "table"):
        limited.warn(subject, f"{subject} refused")
    now_s[0] = PERIOD_S
    limited.warn("table", "table refused")
    assert [record.getMessage() for record in caplog.records] == [
        "table refused",
        "roster refused",
        "table refused (2 more like it before)",
    ]
