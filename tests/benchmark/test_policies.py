"""Which policies the comparison has, and with which settings."""

from __future__ import annotations

from isocost.config import ControlPlaneConfig
from tests.benchmark.policies import filters


def test_the_comparison_has_every_policy_as_it_is_shipped() -> None:
    default = ControlPlaneConfig().filter
    for policy, section in filters(pure=False).items():
        settings = ControlPlaneConfig.model_validate({"filter": section}).filter
        assert settings == default.model_copy(update={"policy": policy})


def test_pure_policies_have_neither_projection_nor_dispersion() -> None:
    sections = filters(pure=True)
    # The first is what the others are compared with.
    assert list(sections) == ["weighted_random", "min_entropy"]
    for policy, section in sections.items():
        settings = ControlPlaneConfig.model_validate({"filter": section}).filter
        assert (settings.policy, settings.projection, settings.dispersion) == (policy, False, False)
