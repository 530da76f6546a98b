"""Rows of a trace file, checked: every error names the file, the line, the field and its value."""

from __future__ import annotations

import csv
import gzip
import json
import reprlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from isocost.errors import StartError

#: Lengths up to this are read; longer than any model's context, so a larger number is a mistake.
MAX_TOKENS = 10_000_000
#: Times and rates up to this are read; keeps every sum and difference finite.
MAX_NUMBER = 1e15
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Field:
    """A column or key: how its value is read (ValueError if it cannot be) and what is allowed."""

    name: str
    parse: Callable[[Any], Any]
    allowed: str


@contextmanager
def opened(path: Path) -> Iterator[Iterable[str]]:
    """The file's lines, unpacked if it is gzip; StartError for what cannot be read."""
    try:
        with path.open("rb") as start:
            packed = start.read(2) == _GZIP
        opener = gzip.open if packed else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as lines:
            yield lines
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise StartError(f"{path}: {error}") from error


def csv_rows(
    lines: Iterable[str], source: str, fields: Sequence[Field]
) -> Iterator[tuple[Any, ...]]:
    """The named columns' values of every row, in the order of ``fields``; others are ignored."""
    rows = csv.reader(lines)
    header = next(rows, [])
    names = [field.name for field in fields]
    missing = [name for name in names if name not in header]
    if missing:
        raise StartError(
            f"{source}: line 1: no column {', '.join(missing)}; needed are {','.join(names)}"
        )
    pick = itemgetter(*(header.index(name) for name in names))
    for row in rows:
        if not row:
            continue
        if len(row) != len(header):
            raise StartError(
                f"{source}: line {rows.line_num}: {len(row)} fields; the header has {len(header)}"
            )
        yield _parsed(pick(row), source, rows.line_num, fields)


def json_rows(
    lines: Iterable[str], source: str, fields: Sequence[Field]
) -> Iterator[tuple[Any, ...]]:
    """The named keys' values of every line's object, None for an absent one; others are ignored."""
    names = [field.name for field in fields]
    for number, line in enumerate(lines, start=1):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise StartError(f"{source}: line {number}: no JSON: {error}") from error
        if not isinstance(row, dict):
            raise refused(source, number, "the line", row, "an object with " + ", ".join(names))
        yield _parsed([row.get(name) for name in names], source, number, fields)


def _parsed(
    values: Sequence[Any], source: str, line: int, fields: Sequence[Field]
) -> tuple[Any, ...]:
    parsed = []
    for field, value in zip(fields, values, strict=True):
        try:
            parsed.append(field.parse(value))
        except ValueError:
            raise refused(source, line, field.name, value, field.allowed) from None
    return tuple(parsed)


def refused(source: str, line: int, field: str, value: object, allowed: str) -> StartError:
    """The error for a value that is not allowed."""
    return StartError(
        f"{source}: line {line}: {field}: {reprlib.repr(value)} is not allowed; {allowed}"
    )


def tokens(name: str) -> Field:
    """A length in a CSV."""
    return Field(name, _whole, f"a whole number from 0 to {MAX_TOKENS:,}")


def number(name: str, low: float = -MAX_NUMBER, high: float = MAX_NUMBER) -> Field:
    """A number in a CSV."""

    def parse(text: str) -> float:
        return _between(float(text), low, high)

    return Field(name, parse, f"a number from {low:g} to {high:g}")


def optional(field: Field) -> Field:
    """The same field; an empty value is None."""
    return Field(
        field.name,
        lambda text: None if text == "" else field.parse(text),
        f"{field.allowed}, or nothing",
    )


def text(name: str) -> Field:
    return Field(name, str, "text")


def json_tokens(name: str) -> Field:
    """A length in JSON."""

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError
        return int(_between(value, 0, MAX_TOKENS))

    return Field(name, parse, f"a whole number from 0 to {MAX_TOKENS:,}")


def json_number(name: str) -> Field:
    """A number in JSON."""

    def parse(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        return _between(value, -MAX_NUMBER, MAX_NUMBER)

    return Field(name, parse, f"a number from {-MAX_NUMBER:g} to {MAX_NUMBER:g}")


def _whole(value: str) -> int:
    # int() alone would also take "1_000", " 5 " and digits of other scripts.
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise ValueError
    return int(_between(int(value), 0, MAX_TOKENS))


def _between(value: float, low: float, high: float) -> float:
    if not low <= value <= high:  # Nor is it for NaN.
        raise ValueError
    return value
