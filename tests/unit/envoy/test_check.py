"""The start-up check names what an Envoy lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from isocost.envoy import check as module
from isocost.envoy.binary import envoy_version, find_envoy
from isocost.envoy.capabilities import CAPABILITIES
from isocost.envoy.check import check_envoy
from isocost.errors import StartError
from tests.unit.envoy.fake_envoy import fake_envoy, program


@pytest.fixture(autouse=True)
def _filter_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wasm = tmp_path / "isocost.wasm"
    wasm.write_bytes(b"")
    monkeypatch.setattr(module, "WASM", wasm)


def test_an_envoy_with_everything_passes(tmp_path: Path) -> None:
    report = check_envoy(fake_envoy(tmp_path, "1.40.0"))
    assert report.ok
    assert report.version == "1.40.0"
    assert len(report.findings) == len(CAPABILITIES) + 2


@pytest.mark.parametrize("version", ["1.28.7", "1.35.9", "0.99.0"])
def test_an_old_envoy_is_refused_for_its_version(tmp_path: Path, version: str) -> None:
    report = check_envoy(fake_envoy(tmp_path, version))
    (missing,) = [finding for finding in report.findings if not finding.ok]
    assert missing.name == "version 1.36.0 or later"
    assert missing.error == f"it is {version}"


@pytest.mark.parametrize("version", ["1.36.0", "1.41.0-dev", "2.0.1"])
def test_a_new_enough_version_is_not_refused(tmp_path: Path, version: str) -> None:
    assert check_envoy(fake_envoy(tmp_path, version)).ok


@pytest.mark.parametrize(
    ("lacks", "name"),
    [
        ("envoy.wasm.runtime.v8", "wasm filters on V8"),
        ("FAIL_RELOAD", "wasm failure_policy FAIL_RELOAD"),
        ("allow_on_headers_stop_iteration", "wasm allow_on_headers_stop_iteration"),
        ("config_discovery", "HTTP filters by ECDS"),
        ("early_header_mutation_extensions", "early header mutation"),
        ("override_host_sources", "override_host load balancing"),
        ("upstream_codec", "header mutation as an upstream filter"),
        ("request_body_buffer_limit", "request_body_buffer_limit of a route"),
        ("retry_host_predicate", "retry predicate previous_hosts"),
        ("isocost_ingress", "the shipped bootstrap with the filter"),
    ],
)
def test_each_thing_that_is_missing_is_named_in_envoys_words(
    tmp_path: Path, lacks: str, name: str
) -> None:
    report = check_envoy(fake_envoy(tmp_path, "1.40.0", lacks))
    missing = {finding.name: finding.error for finding in report.findings if not finding.ok}
    assert missing[name] == f"could not find {lacks}"
    assert not report.ok


def test_every_capability_has_a_probe_of_its_own() -> None:
    probes = [capability.bootstrap for capability in CAPABILITIES]
    assert len(set(probes)) == len(probes)


def test_a_filter_that_is_not_built_cannot_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WASM", tmp_path / "absent.wasm")
    with pytest.raises(StartError, match="make filter"):
        check_envoy(fake_envoy(tmp_path, "1.40.0"))


@pytest.mark.parametrize("script", ["exit 1", "echo hello", "echo broken >&2; exit 7"])
def test_a_program_that_is_no_envoy_is_said_to_be_none(tmp_path: Path, script: str) -> None:
    with pytest.raises(StartError, match="no Envoy version"):
        envoy_version(program(tmp_path, script))


def test_a_file_of_another_machine_cannot_be_run(tmp_path: Path) -> None:
    path = tmp_path / "envoy"
    path.write_bytes(b"\x7fELF not really")
    path.chmod(0o755)
    with pytest.raises(StartError, match="cannot be run"):
        envoy_version(path)


def test_a_path_that_is_no_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="no program that can be run"):
        find_envoy(str(tmp_path / "absent"))
