"""A setting by hand is refused by field, value and what is allowed."""

import math

import pytest

from isocost.config import Policy
from isocost.errors import RejectedError
from isocost.weight.override import Override, parse_override, refuse_ignored


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"weight": 0}, Override(weight=0.0)),
        ({"weight": "0.5"}, Override(weight=0.5)),
        ({"entropy": 3.5}, Override(entropy=3.5)),
        ({"entropy": "inf"}, Override(entropy=math.inf)),
    ],
)
def test_a_number_or_its_text_is_taken(data: object, expected: Override) -> None:
    assert parse_override(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        {"weight": 1.1},
        {"weight": 1e-50},
        {"entropy": 1e39},
        {"weight": -0.1},
        {"weight": "inf"},
        {"weight": "nan"},
        {"weight": True},
        {"weight": None},
        {"weight": "heavy"},
        {"weight": []},
        {"entropy": -1},
        {"entropy": "nan"},
        {"entropy": 10**400},
    ],
)
def test_anything_else_is_refused_with_field_and_value(data: dict[str, object]) -> None:
    ((field, value),) = data.items()
    with pytest.raises(RejectedError) as caught:
        parse_override(data)
    assert str(caught.value).startswith(f"{field}: {value!r} is not allowed; it must be")


@pytest.mark.parametrize("data", [None, [], {}, "weight", {"weight": 1, "entropy": 2}, {"w": 1}])
def test_an_override_has_exactly_one_known_field(data: object) -> None:
    with pytest.raises(RejectedError, match="override"):
        parse_override(data)


@pytest.mark.parametrize(
    ("data", "policy"),
    [({"weight": 0.5}, "min_entropy"), ({"entropy": 3}, "weighted_random")],
)
def test_a_number_that_the_policy_ignores_is_refused(data: object, policy: Policy) -> None:
    with pytest.raises(RejectedError, match=f"has no effect under {policy}"):
        refuse_ignored(parse_override(data), policy)


@pytest.mark.parametrize("policy", ["min_entropy", "weighted_random"])
@pytest.mark.parametrize("data", [{"weight": 0}, {"entropy": "inf"}])
def test_never_is_never_under_every_policy(data: object, policy: Policy) -> None:
    refuse_ignored(parse_override(data), policy)
