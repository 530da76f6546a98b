"""`isocost status` against the real admin application."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from isocost.cli import status
from isocost.cli.main import main
from isocost.config import ControlPlaneConfig, DiscoverySettings
from isocost.config_consul import ConsulDiscoverySettings
from isocost.discovery.consul import ConsulWatch
from isocost.discovery.listing import Listed, Listing
from isocost.errors import ConfigError, FieldError
from isocost.model import Node
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


def test_a_source_that_does_not_answer_is_shown_with_its_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    discovery = DiscoverySettings(consul=ConsulDiscoverySettings())
    with served(ControlPlaneConfig(discovery=discovery)) as running:
        watch = running.control_plane._watches[0]
        assert isinstance(watch, ConsulWatch)
        assert ["consul", "no list"] in _columns(shown(running, capsys))
        watch._failed("connection refused")
        lines = _columns(shown(running, capsys))
        assert ["ERROR: connection refused"] in lines
        lost = Node("gpu-9", "gpu-9@0", "gpu-9.nowhere:80", "r", "h")
        watch._take(Listing((Listed(lost),)))
        running.tick()
        running.tick()
        lines = _columns(shown(running, capsys))
    assert ["consul", "1 nodes, 0 s ago"] in lines
    assert ["unresolved", "1: gpu-9"] in lines


def test_nodes_that_are_held_and_those_that_are_away_are_counted() -> None:
    source = {"name": "consul", "nodes": 8, "age_s": 61.0, "error": None}
    names = [f"n{index}" for index in range(100)]
    discovery = {
        "sources": [{**source, "held_count": 2, "refused_count": 1}],
        **{"unresolved_count": 0, "unresolved": []},
        **{"stale_names_count": 1, "stale_names": [{"name": "a.b", "error": "x"}]},
        **{"unreachable_count": 300, "unreachable": names},
    }
    rows = dict(status._discovery(discovery))
    assert rows["consul"].endswith(" ago, 2 held, 1 refused")
    assert rows["stale names"] == "1: a.b"
    assert rows["unreachable"] == f"300: {', '.join(names[:20])}, ..."
    assert "unresolved" not in rows


def _columns(text: str) -> list[list[str]]:
    """Lines by their columns, which two blanks are between."""
    return [re.split(r"  +", line.strip(), maxsplit=1) for line in text.splitlines()]


def test_json_is_the_page(control_plane: Served, capsys: pytest.CaptureFixture[str]) -> None:
    page = json.loads(shown(control_plane, capsys, "--json"))
    assert page["config"]["reloads"] == {"applied": 0, "unchanged": 0, "refused": 0}
