"""What operators set goes through the daemon to disk and table, and back after a restart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from isocost import manual
from isocost.config import ControlPlaneConfig
from isocost.daemon import ControlPlane
from isocost.discovery.report import AgentReport
from isocost.errors import ConfigError, RejectedError, StateError
from isocost.manual import Manual, Note
from isocost.weight.override import Override
from tests.unit.fleet_builder import node, sample

NOTE = Note("ana@ops", 1_790_000_000.0, "fan")
A = node("a", address="192.0.2.1:80")
B = node("b", address="192.0.2.2:80")


def daemon(state_dir: Path | None) -> ControlPlane:
    """A control plane that serves nobody; its fleet is a and b."""
    made = ControlPlane(ControlPlaneConfig(state_dir=None if state_dir is None else str(state_dir)))
    now_s = time.monotonic()
    made._registry.receive(AgentReport("agent", 1, 0.0, 0.0, (sample(A), sample(B))), now_s)
    made._pipeline.tick(now_s, 1_790_000_000_000)
    made._pipeline.tick(now_s + 0.4, 1_790_000_000_400)
    return made


def row(of: ControlPlane, name: str) -> dict[str, Any]:
    rows: Any = of.nodes()["nodes"]
    return dict(next(item for item in rows if item["name"] == name))


async def test_settings_by_hand_survive_a_restart(tmp_path: Path) -> None:
    first = daemon(tmp_path)
    await first.drain("a", True, NOTE)
    await first.override("b", {"entropy": "inf"}, NOTE)
    again = daemon(tmp_path)
    assert row(again, "a")["state"] == "draining"
    assert row(again, "a")["drain"] == {
        "who": "ana@ops",
        "at_unix_s": 1_790_000_000.0,
        "why": "fan",
    }
    assert row(again, "b")["entropy"] == "inf"
    assert row(again, "b")["override"] == {"entropy": "inf", **NOTE.json()}
    await again.drain("a", False, NOTE)
    await again.override("b", None, NOTE)
    assert manual.load(tmp_path) == Manual()


async def test_settings_of_nodes_that_are_not_there_are_kept_shown_and_removable(
    tmp_path: Path,
) -> None:
    kept = Manual().drained("gone", NOTE).overridden("gone", Override(weight=0.5), NOTE)
    manual.save(tmp_path, kept)
    running = daemon(tmp_path)
    assert running.nodes()["unseen"] == [
        {"name": "gone", "drain": NOTE.json(), "override": {"weight": 0.5, **NOTE.json()}}
    ]
    await running.drain("a", True, NOTE)
    assert manual.load(tmp_path).drains.keys() == {"a", "gone"}
    await running.drain("gone", False, NOTE)
    assert manual.load(tmp_path).drains.keys() == {"a"}


async def test_what_could_not_be_kept_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = daemon(tmp_path)

    def fail(*_: object) -> None:
        raise StateError("no space left")

    monkeypatch.setattr(manual, "save", fail)
    with pytest.raises(StateError):
        await running.drain("a", True, NOTE)
    assert row(running, "a")["drain"] is None


async def test_without_a_folder_settings_work_and_the_log_says_that_they_will_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", "isocost.daemon"):
        running = daemon(None)
    assert [line for line in caplog.messages if "state_dir" in line] == [
        "no state_dir is configured: settings by hand end with this process"
    ]
    await running.override("a", {"weight": 0.5}, NOTE)
    assert row(running, "a")["override"]["weight"] == 0.5


@pytest.mark.parametrize(
    ("data", "words"), [({"weight": 2}, "weight: 2"), ({}, "override is"), ({"w": 1}, "'w'")]
)
async def test_a_bad_number_is_refused_and_nothing_is_kept(
    tmp_path: Path, data: dict[str, object], words: str
) -> None:
    running = daemon(tmp_path)
    with pytest.raises(RejectedError, match=words):
        await running.override("a", data, NOTE)
    with pytest.raises(RejectedError, match="no node 'x'; known: a, b"):
        await running.drain("x", True, NOTE)
    assert manual.load(tmp_path) == Manual()


def test_a_bad_file_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / manual.FILE_NAME).write_text("{")
    with pytest.raises(ConfigError, match=r"manual\.json"):
        daemon(tmp_path)


def test_a_row_tells_state_reason_and_since_when() -> None:
    told = row(daemon(None), "a")
    assert (told["state"], told["reason"]) == ("serving", "ok")
    assert told["state_age_s"] == 0.0
    assert told["since_unix_s"] == pytest.approx(1_790_000_000.4)
    assert told["share_factor"] == 1.0
    assert told["failure_ratio"] == 0.0
    assert (told["drain"], told["override"]) == (None, None)
