"""Estimates are sent seldom, only when something changed, and before the table."""

from __future__ import annotations

from google.protobuf.any_pb2 import Any

from isocost.config import ModelPlacement
from isocost.observe.batch import Answer
from isocost.observe.history import History
from isocost.push.estimates import PERIOD_S, EstimatesSource
from isocost.push.snapshot import TypeResources
from isocost.push.type_urls import ESTIMATES, ORDER, ROSTER, TABLE
from isocost.v1.estimates_pb2 import Estimates

COEFFICIENTS = (0.25, 0.5, 0.75, 0.125, 1.0, 0.5)


def message(resources: TypeResources | None) -> Estimates:
    assert resources is not None
    return Estimates.FromString(Any.FromString(resources.resources["fleet"]).value)


def test_they_come_after_the_roster_and_before_the_table() -> None:
    assert ORDER.index(ROSTER) < ORDER.index(ESTIMATES) < ORDER.index(TABLE)


def test_they_are_made_every_two_seconds_and_equal_ones_have_an_equal_version() -> None:
    history = History()
    source = EstimatesSource(history, ())
    first = source.due(0.0)
    history.add([Answer(3, "m", 100)])
    assert source.due(PERIOD_S - 0.1) is None
    second = source.due(PERIOD_S)
    third = source.due(2 * PERIOD_S)
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.version != second.version == third.version
    assert message(first).user_output == b""
    assert message(second).user_output[2] > 0
    assert message(second).version == int(second.version, 16)


def test_models_are_those_that_answered_and_those_that_are_configured() -> None:
    history = History()
    history.add([Answer(0, "seen", 128)])
    configured = (
        ModelPlacement(name="seen", output_tokens=9.0, token_coefficients=COEFFICIENTS),
        ModelPlacement(name="new", output_tokens=512.0),
    )
    made = message(EstimatesSource(history, configured).due(0.0))
    assert [(model.name, model.output_tokens) for model in made.models] == [
        ("new", 512.0),
        ("seen", 128.0),
    ]
    assert list(made.models[1].token_coefficients) == list(COEFFICIENTS)
    assert not made.models[0].token_coefficients
    assert made.output_tokens == 128.0
