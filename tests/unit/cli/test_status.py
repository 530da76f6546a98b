"""`isocost status` against the real admin application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from isocost.cli.main import main
from isocost.config import ControlPlaneConfig
from isocost.errors import ConfigError, FieldError
from isocost.reload import Refused
from tests.unit.cli.control_plane_app import Served, served
from tests.unit.control_plane.test_bounded_pages import refusing


@pytest.fixture
def control_plane(tmp_path: Path) -> Iterator[Served]:
    with served(ControlPlaneConfig(state_dir=str(tmp_path))) as running:
        yield running


def shown(control_plane: Served, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["status", "--http", control_plane.http, *flags]) == 0
    return capsys.readouterr().out


def test_what_runs_is_shown(control_plane: Served, capsys: pytest.CaptureFixture[str]) -> None:
    control_plane.tick()
    lines = shown(control_plane, capsys).splitlines()
    told = dict(line.split(maxsplit=1) for line in lines)
    assert told["config"] == "no file: flags and defaults"
    assert told["nodes"] == "3 serving"
    assert told["envoys"] == "1 report"
    assert told["clients"] == "0 connected, 0 refuse something"
    assert "REFUSED" not in told


def test_what_is_refused_is_shown_and_cannot_forge_a_line(
    control_plane: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = control_plane.control_plane
    errors = [FieldError("states.x\x1b", 1, "unknown key")]
    inside.reload.refused = Refused(0.0, ConfigError("f", errors))
    inside._ads._streams.add(refusing("edge-7"))
    text = shown(control_plane, capsys)
    assert "states.x\\x1b: unknown key" in text
    assert "1 connected, 1 refuse something" in text
    assert "edge-7 refuses Table: " in text


def test_json_is_the_page(control_plane: Served, capsys: pytest.CaptureFixture[str]) -> None:
    page = json.loads(shown(control_plane, capsys, "--json"))
    assert page["config"]["reloads"] == {"applied": 0, "unchanged": 0, "refused": 0}
