"""`isocost config check` and `isocost config bootstrap`: what they print and how they exit."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from isocost.cli import config_bootstrap, config_check
from isocost.envoy import check
from isocost.errors import ConfigError, StartError
from tests.unit.envoy.fake_envoy import fake_envoy


def _run(command: ModuleType, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    code = command.run(parser.parse_args(arguments))
    assert isinstance(code, int)
    return code


def _file(folder: Path, text: str) -> str:
    path = folder / "config.yaml"
    path.write_text(text)
    return str(path)


@pytest.fixture
def built_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wasm = tmp_path / "isocost.wasm"
    wasm.write_bytes(b"")
    monkeypatch.setattr(check, "WASM", wasm)


def test_a_good_file_exits_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(config_check, _file(tmp_path, "tick_ms: 200")) == 0
    assert "a good control-plane configuration" in capsys.readouterr().out


def test_a_bad_file_exits_2_with_field_value_and_what_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "weight: {latency_factor_per_ms: -1}\nlisten: 127.0.0.1:99999\nunknown: 1\n"
    assert _run(config_check, _file(tmp_path, text)) == 2
    said = capsys.readouterr().err
    for part in ("weight.latency_factor_per_ms", "-1", "99999", "65535", "unknown key"):
        assert part in said


def test_a_file_that_is_not_there_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(config_check, str(tmp_path / "absent.yaml")) == 2
    assert "absent.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("nodes", "nodes: [{name: n, address: '10.0.0.1:80', rack: r, host: h}]"),
        (
            "agent",
            "name: a\nnodes: [{name: n, address: '10.0.0.1:80', rack: r, host: h,"
            " metrics_url: 'http://a/metrics', dcgm_url: 'http://a/gpus'}]",
        ),
    ],
)
def test_the_kind_chooses_what_is_allowed(tmp_path: Path, kind: str, text: str) -> None:
    path = _file(tmp_path, text)
    assert _run(config_check, path, "--kind", kind) == 0
    assert _run(config_check, path) == 2


def test_refused_fields_are_printed_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(config_check, _file(tmp_path, "tick_ms: 1"), "--json") == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    (refused,) = answer["file"]["refused"]
    assert refused["field"] == "tick_ms"


def test_a_value_that_was_not_found_is_null(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(config_check, _file(tmp_path, "models: [{}]"), "--json") == 2
    (refused,) = json.loads(capsys.readouterr().out)["file"]["refused"]
    assert refused == {"field": "models.0.name", "value": None, "allowed": "it is required"}


def test_nodes_that_consul_cannot_keep_are_refused_as_an_agent_refuses_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "name: a\nconsul: {}\nnodes: [{name: n, address: '10.0.0.1:80', rack: r, host: h, "
        f"metrics_url: 'http://a/m', dcgm_url: 'http://a/g', models: [{{name: {'x' * 66_000}}}]}}]"
    )
    path = _file(tmp_path, text)
    assert _run(config_check, path, "--kind", "agent") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{path}: nodes.0.models: Consul keeps at most ")
    # As a process: a daemon sets its signals.
    arguments = [sys.executable, "-m", "isocost.cli.main", "agent", "--config", path]
    agent = subprocess.run(arguments, capture_output=True, text=True, timeout=60.0, check=False)
    assert (agent.returncode, agent.stderr) == (2, said)


def test_nothing_to_check_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(config_check) == 2
    assert "--envoy" in capsys.readouterr().err


@pytest.mark.usefixtures("built_filter")
def test_an_envoy_that_lacks_something_exits_1_and_says_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    envoy = fake_envoy(tmp_path, "1.28.0", lacks="override_host")
    assert _run(config_check, "--envoy", str(envoy)) == 1
    said = capsys.readouterr().out
    assert "MISSING  version 1.36.0 or later" in said
    assert "MISSING  override_host load balancing" in said
    assert "cannot carry" in said


@pytest.mark.usefixtures("built_filter")
def test_an_envoy_with_everything_exits_0_also_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    envoy = fake_envoy(tmp_path, "1.40.0")
    assert _run(config_check, "--envoy", str(envoy), "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is True
    assert answer["envoy"]["version"] == "1.40.0"
    assert all(finding["ok"] for finding in answer["envoy"]["findings"])


def test_an_envoy_that_cannot_be_run_is_a_start_error(tmp_path: Path) -> None:
    with pytest.raises(StartError):
        _run(config_check, "--envoy", str(tmp_path / "absent"))


def test_the_bootstrap_is_printed_with_the_values_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run(config_bootstrap, "--node-id", "edge-3", "--listen", "0.0.0.0:8080") == 0
    data = yaml.safe_load(capsys.readouterr().out)
    assert data["node"]["id"] == "edge-3"
    (listener,) = data["static_resources"]["listeners"]
    assert listener["address"]["socket_address"]["port_value"] == 8080


def test_the_bootstrap_goes_to_the_file_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "envoy.yaml"
    assert _run(config_bootstrap, "--wasm", "/opt/isocost.wasm", "--output", str(path)) == 0
    assert "/opt/isocost.wasm" in path.read_text()


def test_a_bootstrap_value_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="listen"):
        _run(config_bootstrap, "--listen", "0.0.0.0:70000")


def test_a_bootstrap_that_cannot_be_written_is_a_start_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="--output"):
        _run(config_bootstrap, "--output", str(tmp_path / "absent" / "envoy.yaml"))


def test_credentials_are_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _file(tmp_path, "history: {redis_url: 'http://user:secret@host'}")
    assert _run(config_check, path, "--json") == 2
    (refused,) = json.loads(capsys.readouterr().out)["file"]["refused"]
    assert refused["value"] == "***"
