"""The figures of the benchmarks in one file, build/bench.json: a list of entries by name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

BENCH_JSON = Path("build/bench.json")


@dataclass(frozen=True, slots=True)
class Entry:
    """One figure; ``ok`` says whether it keeps its ``bar`` (in words: "<= 0.65").

    ``runs`` are the single values behind ``value``.
    """

    name: str
    value: float
    unit: str
    bar: str
    ok: bool
    runs: tuple[float, ...] = ()
    note: str = ""


def at_most(
    name: str, value: float, unit: str, limit: float, runs: tuple[float, ...] = (), note: str = ""
) -> Entry:
    """A figure that may not be above its limit."""
    return Entry(name, value, unit, f"<= {limit:g}", value <= limit, runs, note)


def record(entry: Entry) -> None:
    """The figure of a test, into the file that ISOCOST_BENCH_JSON names; unset: nowhere."""
    if path := os.environ.get("ISOCOST_BENCH_JSON"):
        merge([entry], Path(path))


def merge(entries: Iterable[Entry], path: Path = BENCH_JSON) -> None:
    """Write the entries over those of the same names; the others in the file stay."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    by_name = {entry["name"]: entry for entry in kept}
    by_name |= {entry.name: asdict(entry) for entry in entries}
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = [by_name[name] for name in sorted(by_name)]
    path.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
