"""The example with verified callers is one that Envoy takes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from isocost.config import BootstrapSettings
from isocost.envoy.binary import find_envoy, refusal
from isocost.envoy.bootstrap import bootstrap, connection_manager
from isocost.push.resources import names

EXAMPLE = Path(__file__).parents[3] / "envoy" / "jwt.yaml"


def with_callers_verified(example: dict[str, Any]) -> dict[str, Any]:
    data = bootstrap(BootstrapSettings())
    connection_manager(data)["http_filters"].insert(0, example["http_filter"])
    data["static_resources"]["clusters"].append(example["cluster"])
    return data


def example() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    return data


def test_envoy_takes_the_bootstrap_with_the_example_in_it() -> None:
    data = with_callers_verified(example())
    assert refusal(find_envoy(), yaml.safe_dump(data)) is None


def test_envoy_would_refuse_an_example_that_is_wrong() -> None:
    wrong = copy.deepcopy(example())
    wrong["http_filter"]["typed_config"]["rules"][0]["requires"]["provider_name"] = "nobody"
    assert refusal(find_envoy(), yaml.safe_dump(with_callers_verified(wrong))) is not None


def test_callers_are_verified_before_the_filter_reads_their_claims() -> None:
    filters = connection_manager(with_callers_verified(example()))["http_filters"]
    found = [item["name"] for item in filters]
    assert found.index("envoy.filters.http.jwt_authn") < found.index(names.FILTER)
    provider = example()["http_filter"]["typed_config"]["providers"]["tenants"]
    assert provider["forward"] is True
