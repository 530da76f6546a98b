"""What the log says of the readers' troubles."""

from __future__ import annotations

import logging

import pytest

from isocost.telemetry.nvml.trouble import Trouble


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "isocost.telemetry.nvml.trouble")
    return caplog


def test_what_both_loops_say_is_told_once(told: pytest.LogCaptureFixture) -> None:
    trouble = Trouble()
    for _ in range(3):
        trouble.tell("load", "NVML: no library")
        trouble.tell("condition", "NVML: no library")
    assert told.messages == ["no GPU telemetry: NVML: no library"]
    trouble.tell("load", "")
    assert len(told.messages) == 1, "one of them still cannot read"
    for _ in range(2):
        trouble.tell("condition", "")
    assert told.messages[1:] == ["NVML answers: the GPUs are read"]
    trouble.tell("load", "NVML: no library")
    assert len(told.messages) == 3, "new trouble is told"


def test_trouble_of_one_loop_is_told_beside_that_of_the_other(
    told: pytest.LogCaptureFixture,
) -> None:
    trouble = Trouble()
    trouble.tell("load", "the load reader died")
    trouble.tell("condition", "the condition reader died")
    assert told.messages == [
        "no GPU telemetry: the load reader died",
        "no GPU telemetry: the condition reader died",
    ]


def test_a_warning_is_told_once(told: pytest.LogCaptureFixture) -> None:
    trouble = Trouble()
    for warning in ("a", "b", "a"):
        trouble.warn(warning)
    assert told.messages == ["a", "b"]
