"""Figures of several benchmarks meet in one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmark.bench_json import Entry, at_most, merge, record


def test_entries_of_the_same_name_are_replaced_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "build" / "bench.json"
    merge([at_most("b", 2.0, "ms", 1.0), at_most("a", 0.5, "", 0.65, runs=(0.4, 0.6))], path)
    merge([Entry("b", 0.5, "ms", "<= 1", True, note="again")], path)
    a, b = json.loads(path.read_text())
    assert (a["name"], a["value"], a["bar"], a["ok"], a["runs"]) == (
        "a", 0.5, "<= 0.65", True, [0.4, 0.6],
    )  # fmt: skip
    assert (b["name"], b["value"], b["ok"], b["note"]) == ("b", 0.5, True, "again")


def test_a_test_records_its_figure_only_where_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ISOCOST_BENCH_JSON", raising=False)
    record(at_most("a", 1.0, "", 1.25))
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv("ISOCOST_BENCH_JSON", "there/bench.json")
    record(at_most("a", 1.0, "", 1.25))
    record(at_most("b", 2.0, "", 1.25))
    kept = json.loads((tmp_path / "there" / "bench.json").read_text())
    assert [(entry["name"], entry["ok"]) for entry in kept] == [("a", True), ("b", False)]


def test_a_figure_above_its_limit_is_not_ok() -> None:
    assert not at_most("a", 1.01, "ms", 1.0).ok and at_most("a", 1.0, "ms", 1.0).ok
