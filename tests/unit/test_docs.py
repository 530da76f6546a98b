"""The documentation names every configuration key, command, reason of a state and health row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from isocost.cli.main import COMMANDS
from isocost.config import AgentConfig, ControlPlaneConfig, NodeListFile
from isocost.config_file import load
from isocost.score.health_table import ROWS
from isocost.weight.standing import Reason
from tests.unit.control_plane.test_daemon import daemon

ROOT = Path(__file__).parents[2]


def keys(kind: type[BaseModel]) -> Iterator[str]:
    """Every key of a configuration, nested ones included."""
    for name, field in kind.model_fields.items():
        yield name
        for inner in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from keys(inner)


@pytest.mark.parametrize("kind", [ControlPlaneConfig, AgentConfig, NodeListFile])
def test_every_configuration_key_is_documented(kind: type[BaseModel]) -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    sections = {"weight", "entropy", "filter", "envoy", "discovery", "history", "models", "consul"}
    missing = [key for key in keys(kind) if key not in sections and f"{key}`" not in text]
    assert missing == []


@pytest.mark.parametrize("command", [*COMMANDS, "config"])
def test_every_command_has_a_help_page_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from isocost.cli.main import main

    with pytest.raises(SystemExit) as caught:
        main([*command.split(), "--help"])
    assert caught.value.code == 0
    assert f"isocost {command}" in capsys.readouterr().out.split("examples:")[1]


@pytest.mark.parametrize(
    ("kind", "name"), [(AgentConfig, "agent"), (ControlPlaneConfig, "control-plane")]
)
def test_the_example_configurations_are_good(kind: type[BaseModel], name: str) -> None:
    assert load(kind, ROOT / "docs" / "examples" / f"{name}.yaml")  # type: ignore[type-var]


def test_the_health_table_is_the_one_in_the_code() -> None:
    text = (ROOT / "docs" / "node-states.md").read_text()
    header = "| row | looks at | does | ends | source |\n|---|---|---|---|---|\n"
    rows = []
    for row in ROWS:
        cells = (f"`{row.name}`", row.looks_at, row.action.name.lower(), row.clears, row.source)
        rows.append(f"| {' | '.join(cells)} |")
    table = text.split(header)[1].split("\n\n")[0].splitlines()
    assert table == rows


def test_every_reason_of_a_state_is_documented() -> None:
    text = (ROOT / "docs" / "node-states.md").read_text()
    assert [reason for reason in Reason if f"`{reason}`" not in text] == []


async def test_every_metric_of_the_control_plane_is_documented() -> None:
    text = (ROOT / "docs" / "operating.md").read_text()
    page = (await daemon(None).metrics_page()).decode()
    names = set(re.findall(r"^# TYPE (isocost_\w+) ", page, re.MULTILINE))
    assert len(names) > 30
    assert [
        name for name in names if not name.endswith("_created") and f"`{name}`" not in text
    ] == []


def test_every_key_of_the_status_is_documented() -> None:
    text = (ROOT / "docs" / "operating.md").read_text()
    status = daemon(None).status()
    inner = [key for name in ("config", "discovery", "push") for key in status[name]]  # type: ignore[attr-defined]
    assert [key for key in (*status, *inner) if f"`{key}`" not in text] == []
