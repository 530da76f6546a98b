"""The first roster waits until agents cease to appear, but not for ever."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path

import pytest

from isocost.errors import StateError
from isocost.first_roster import FILE_NAME, QUIET_S, FirstRoster, load, save
from isocost.telemetry.uplink import BACKOFF_SHARE

SETTLE_S = 5.0
#: Over the quiet time by no more than rounding.
QUIET_OVER_S = QUIET_S + 1e-9


def test_a_roster_is_complete_when_no_node_came_for_a_while() -> None:
    first = FirstRoster(SETTLE_S)
    assert not first.complete({"a": 0.0}, 10.0)
    assert not first.complete({"a": 0.1, "b": 0.0}, 10.2)
    assert not first.complete({"a": 0.0, "b": 0.1}, 10.2 + QUIET_S - 0.01)
    assert first.complete({"a": 0.0, "b": 0.1}, 10.2 + QUIET_OVER_S)


def test_the_wait_counts_from_the_arrival_and_not_from_the_tick() -> None:
    first = FirstRoster(SETTLE_S)
    assert not first.complete({"a": 0.19}, 10.0)
    assert first.complete({"a": 0.0}, 10.0 - 0.19 + QUIET_OVER_S)


def test_nodes_without_an_agent_are_waited_behind_as_well() -> None:
    first = FirstRoster(SETTLE_S)
    assert not first.complete({"f": math.inf}, 10.0)
    assert first.complete({"f": math.inf}, 10.0 + QUIET_OVER_S)


def test_a_fleet_that_grows_on_is_published_in_the_end() -> None:
    first = FirstRoster(SETTLE_S)
    now_s, ages = 10.0, {}
    while not first.complete(ages, now_s):
        now_s += 0.2
        ages[f"n{now_s}"] = 0.0
    assert SETTLE_S - 0.3 <= now_s - 10.0 <= SETTLE_S + 0.3


def test_with_no_node_it_is_complete_after_the_settling_time() -> None:
    first = FirstRoster(SETTLE_S)
    assert not first.complete({}, 10.0)
    assert not first.complete({}, 14.9)
    assert first.complete({}, 15.0)


def test_once_complete_it_stays_so() -> None:
    first = FirstRoster(SETTLE_S)
    first.complete({"a": 0.0}, 10.0)
    assert first.complete({"a": 0.0}, 11.0)
    assert first.complete({"a": 0.0, "b": 0.0}, 11.1)


def test_the_nodes_of_the_last_roster_are_waited_for_however_long_it_is_quiet() -> None:
    first = FirstRoster(SETTLE_S, frozenset("ab"))
    assert not first.complete({"a": 0.0}, 10.0)
    assert not first.complete({"a": 0.0}, 13.0)
    assert first.complete({"a": 0.0, "b": 0.0}, 13.2)


def test_with_all_expected_nodes_there_it_waits_for_no_others() -> None:
    first = FirstRoster(SETTLE_S, frozenset("ab"))
    assert first.complete({"a": 0.0, "b": 0.0, "c": 0.0}, 10.0)


def test_an_expected_node_that_stays_away_is_waited_for_as_long_as_a_fleet_settles() -> None:
    first = FirstRoster(SETTLE_S, frozenset("ab"))
    assert not first.complete({"a": 0.0}, 10.0)
    assert not first.complete({"a": 0.0}, 14.9)
    assert first.complete({"a": 0.0}, 15.0)


def test_a_fleet_with_unknown_names_is_whole_and_in_time_after_an_outage_of_five_seconds() -> None:
    tick_s, way_to_the_envoys_s = 0.2, 0.1
    last_back_s = 5.0 * BACKOFF_SHARE
    assert last_back_s <= QUIET_S
    assert last_back_s + QUIET_S + tick_s + way_to_the_envoys_s <= 1.0


def test_the_names_that_are_saved_are_loaded(tmp_path: Path) -> None:
    assert load(tmp_path) == frozenset()
    save(tmp_path, {"b", "a"})
    save(tmp_path, {"b", "c"})
    assert load(tmp_path) == {"b", "c"}
    assert [item.name for item in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 60_000,
        "{}",
        json.dumps({"schema": "isocost.last_roster/1", "nodes": [1]}),
        json.dumps({"schema": "isocost.last_roster/1", "nodes": {"a": 1}}),
        json.dumps({"schema": "isocost.last_roster/2", "nodes": ["a"]}),
    ],
)
def test_a_file_that_cannot_be_read_is_told_and_stops_no_start(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with caplog.at_level(logging.WARNING, "isocost.first_roster"):
        assert load(tmp_path) == frozenset()
    assert len(caplog.messages) == 1
    assert FILE_NAME in caplog.messages[0]


def test_names_that_cannot_be_kept_are_an_error_with_the_same_words_each_time(
    tmp_path: Path,
) -> None:
    words = set()
    for _ in range(2):
        with pytest.raises(StateError) as caught:
            save(tmp_path / "gone", {"a"})
        words.add(str(caught.value))
    assert len(words) == 1
