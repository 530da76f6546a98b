"""What a calibration gives to the control plane, and to the calibration of another kind."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from isocost.calibrate.fragment import as_json, entropy_settings, fragment, read_reference
from isocost.calibrate.plan import Plan
from isocost.calibrate.result import Calibration
from isocost.calibrate.text import report
from isocost.config import ControlPlaneConfig
from isocost.config_file import load
from isocost.errors import RejectedError
from isocost.fake.measured import MEASURED
from tests.unit.calibrate.simulated import calibrated

PLAN = Plan(lengths=(256, 2048), seconds=1.0)


@cache
def h100() -> Calibration:
    return calibrated(MEASURED[("H100", "llama-3.1-8b", 1)], PLAN)


def written(folder: Path, found: Calibration) -> Path:
    path = folder / "reference.json"
    path.write_text(json.dumps(as_json(found, entropy_settings(found, None))))
    return path


def test_the_fragment_is_a_good_configuration_of_the_control_plane(tmp_path: Path) -> None:
    settings = entropy_settings(h100(), None)
    path = tmp_path / "entropy.yaml"
    path.write_text(fragment(h100(), settings))
    assert load(ControlPlaneConfig, path).entropy == settings
    assert settings.kv_per_gb == pytest.approx(h100().entropy.kv_per_gb.value, rel=1e-3)
    assert settings.capacity == {"H100": 1.0}


def test_without_a_kind_no_capacity_is_claimed() -> None:
    found = replace(h100(), subject=replace(h100().subject, gpu_kind=None))
    assert entropy_settings(found, None).capacity == {}


def test_another_kind_keeps_the_references_coefficients_and_gets_its_capacity(
    tmp_path: Path,
) -> None:
    """Half as many requests on four cards: an eighth for each card."""
    reference = read_reference(written(tmp_path, h100()), PLAN, h100().capacity.concurrency)
    rate = h100().capacity.requests_per_s / 2
    other = replace(
        h100(),
        subject=replace(h100().subject, gpu_kind="A100", gpu_count=4),
        capacity=replace(h100().capacity, requests_per_s=rate),
    )
    settings = entropy_settings(other, reference)
    assert settings.capacity == {"H100": 1.0, "A100": pytest.approx(0.125)}
    assert settings.kv_per_gb == entropy_settings(h100(), None).kv_per_gb


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no JSON", "Expecting value"),
        ("[]", "not the JSON of a calibration"),
        ('{"schema": "isocost.report/1"}', "is not 'isocost.calibration/1'"),
    ],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "reference.json"
    path.write_text(text)
    with pytest.raises(RejectedError, match=why):
        read_reference(path, PLAN, 64)


def test_a_reference_of_other_lengths_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match=r"it is of the lengths \[256, 2048\]"):
        read_reference(written(tmp_path, h100()), Plan(), 64)


def test_the_report_tells_every_coefficient_with_its_error_and_the_condition_number() -> None:
    text = report(h100())
    for name in ("an open request", "a GB of KV cache", "a prompt of 2048", "kv_per_gb"):
        line = next(line for line in text.splitlines() if line.strip().startswith(name))
        assert " +- " in line
    assert f"condition number {h100().causes.fit.condition:.1f}" in text


def test_json_has_no_infinite_number() -> None:
    json.dumps(as_json(h100(), entropy_settings(h100(), None)), allow_nan=False)
