"""Settings by hand survive everything but their own removal."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from isocost.errors import ConfigError, RejectedError, StateError
from isocost.manual import FILE_NAME, ByHand, Manual, Note, json_of, load, parse_note, save
from isocost.weight.override import Override

NOTE = Note("ana@ops", 1_790_000_000.5, "fan broken")
FULL = (
    Manual()
    .drained("a", NOTE)
    .overridden("a", Override(weight=0.25), Note("ben@ops", 1.0))
    .overridden("b", Override(entropy=math.inf), NOTE)
    .overridden("c", Override(entropy=3.5), NOTE)
    .drained("d", Note("x", 2.0))
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "state"
    assert load(folder) == Manual()
    save(folder, FULL)
    assert load(folder) == FULL
    assert [item.name for item in folder.iterdir()] == [FILE_NAME]


def test_a_change_leaves_the_former_settings_as_they_were() -> None:
    before = Manual().drained("a", NOTE)
    assert before.drained("b", NOTE).drains.keys() == {"a", "b"}
    assert before.drains.keys() == {"a"}


def test_nothing_set_is_nothing_kept() -> None:
    manual = Manual().drained("a", NOTE).overridden("a", Override(weight=1.0), NOTE)
    assert manual.drained("a", None).overridden("a", None, None) == Manual()


def test_drain_and_number_of_a_node_are_apart() -> None:
    assert FULL.drained("a", None).of("a").override == Override(weight=0.25)
    assert FULL.overridden("a", None, None).of("a").drain == NOTE


def test_of_two_orders_to_drain_the_last_one_counts() -> None:
    again = Note("ben@ops", 1_790_000_999.0, "still")
    assert FULL.drained("a", again).of("a").drain == again


def test_infinity_is_a_text_in_json() -> None:
    assert json_of(FULL.of("b")) == {
        "drain": None,
        "override": {
            "entropy": "inf",
            "who": "ana@ops",
            "at_unix_s": 1_790_000_000.5,
            "why": "fan broken",
        },
    }
    assert json_of(ByHand()) == {"drain": None, "override": None}


GOOD = {"who": "a", "at_unix_s": 1.0, "why": ""}


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ("", "(file)"),
        ("{", "(file)"),
        ("[]", "schema"),
        ('{"schema": "isocost.manual/2", "nodes": {}}', "schema"),
        ('{"schema": "isocost.manual/1"}', "nodes"),
        ({"a": 1}, "nodes.a"),
        ({"a": {"drian": GOOD}}, "nodes.a"),
        ({"a": {"drain": {}}}, "nodes.a.drain.at_unix_s"),
        ({"a": {"drain": GOOD | {"at_unix_s": True}}}, "nodes.a.drain.at_unix_s"),
        ({"a": {"drain": GOOD | {"at_unix_s": math.nan}}}, "nodes.a.drain.at_unix_s"),
        ({"a": {"drain": GOOD | {"weight": 1}}}, "nodes.a.drain"),
        ({"a": {"drain": GOOD | {"who": 7}}}, "nodes.a.drain"),
        ({"a": {"override": GOOD}}, "nodes.a.override"),
        ({"a": {"override": GOOD | {"weight": 2}}}, "nodes.a.override"),
        ({"a": {"override": {"weight": 0.5}}}, "nodes.a.override.at_unix_s"),
    ],
)
def test_a_bad_file_is_refused_and_left_alone(
    tmp_path: Path, content: str | dict[str, object], field: str
) -> None:
    text = (
        content
        if isinstance(content, str)
        else json.dumps({"schema": "isocost.manual/1", "nodes": content})
    )
    path = tmp_path / FILE_NAME
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert [error.field for error in caught.value.fields] == [field]
    assert caught.value.source == str(path)
    assert path.read_text() == text


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        load(tmp_path / "file" / "state")


def test_a_crash_while_saving_leaves_the_former_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, FULL)

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(StateError, match="No space left"):
        save(tmp_path, Manual())
    assert load(tmp_path) == FULL
    assert [item.name for item in tmp_path.iterdir()] == [FILE_NAME]


def test_who_and_why_are_optional_printable_and_short() -> None:
    assert parse_note({}, 5.0) == Note("unknown", 5.0, "")
    assert parse_note({"who": " ana ", "why": "hot"}, 5.0) == Note("ana", 5.0, "hot")
    for bad in ({"who": 1}, {"why": "a\nb"}, {"why": "\x1b[2J"}, {"who": "x" * 129}):
        with pytest.raises(RejectedError, match="is not allowed; it must be printable"):
            parse_note(bad, 5.0)
