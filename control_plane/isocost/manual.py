"""What operators set by hand, by node name, with who, when and why; kept in a file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from isocost.errors import ConfigError, FieldError, RejectedError, StateError
from isocost.state_file import replace_json
from isocost.weight.override import Override, parse_override

FILE_NAME = "manual.json"
_SCHEMA = "isocost.manual/1"
_MAX_WHO, _MAX_WHY = 128, 500
#: Who set it when the caller did not say.
_NOBODY = "unknown"


@dataclass(frozen=True, slots=True)
class Note:
    """Who set something, when and why."""

    who: str
    at_unix_s: float
    why: str = ""

    def __str__(self) -> str:
        return f"by {self.who}: {self.why or 'no reason given'}"

    def json(self) -> dict[str, object]:
        return {"who": self.who, "at_unix_s": self.at_unix_s, "why": self.why}


@dataclass(frozen=True, slots=True)
class ByHand:
    """What is set for one node; an override always has its note."""

    drain: Note | None = None
    override: Override | None = None
    override_note: Note | None = None


_NOTHING = ByHand()


@dataclass(frozen=True, slots=True)
class Manual:
    """All settings by hand. A change gives a new one, so that it can be kept before it counts."""

    nodes: Mapping[str, ByHand] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))

    def of(self, name: str) -> ByHand:
        return self.nodes.get(name, _NOTHING)

    @property
    def overrides(self) -> dict[str, Override]:
        return {name: item.override for name, item in self.nodes.items() if item.override}

    @property
    def drains(self) -> dict[str, Note]:
        return {name: item.drain for name, item in self.nodes.items() if item.drain}

    def drained(self, name: str, note: Note | None) -> Manual:
        """With an order to drain the node, or without one (None). The last order counts, also for
        the drain's time-out: whoever repeats it wants to wait again.
        """
        return self._with(name, replace(self.of(name), drain=note))

    def overridden(self, name: str, override: Override | None, note: Note | None) -> Manual:
        """With a number set for the node, or without one (None, None)."""
        return self._with(name, replace(self.of(name), override=override, override_note=note))

    def _with(self, name: str, by_hand: ByHand) -> Manual:
        nodes = {**self.nodes, name: by_hand}
        if by_hand == _NOTHING:
            del nodes[name]
        return Manual(nodes)


def parse_note(data: Mapping[str, object], at_unix_s: float) -> Note:
    """The note in plain data: "who" and "why", both optional; RejectedError names what is wrong."""
    return Note(_text(data, "who", _MAX_WHO) or _NOBODY, at_unix_s, _text(data, "why", _MAX_WHY))


def json_of(by_hand: ByHand) -> dict[str, object]:
    """One node's settings as plain data; an infinite entropy is the text "inf"."""
    override, note = by_hand.override, by_hand.override_note
    return {
        "drain": by_hand.drain.json() if by_hand.drain else None,
        "override": {**_number(override), **note.json()} if override and note else None,
    }


def load(folder: Path) -> Manual:
    """The settings kept in the folder; none if it has no file yet.

    ConfigError: the file cannot be used, or the folder cannot be made. Nothing is changed then:
    to go on without the settings would undo drains that somebody relies on.
    """
    path = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Manual()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, "(file)", str(path), str(error)) from error
    try:
        data = json.loads(text)
    except ValueError as error:
        raise _unusable(path, "(file)", "not JSON", str(error)) from error
    if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else data
        raise _unusable(path, "schema", found, f"it must be {_SCHEMA}")
    nodes = data.get("nodes")
    if not isinstance(nodes, dict):
        raise _unusable(path, "nodes", nodes, "it must be an object")
    return Manual({name: _by_hand(path, name, item) for name, item in nodes.items()})


def save(folder: Path, manual: Manual) -> None:
    """Replace the file in one step: after a crash it is the old one or the new one.

    StateError: it could not be written; the old one is still there.
    """
    content = {
        "schema": _SCHEMA,
        "nodes": {name: json_of(item) for name, item in sorted(manual.nodes.items())},
    }
    path = folder / FILE_NAME
    try:
        replace_json(path, content)
    except OSError as error:
        raise StateError(f"cannot keep the settings by hand in {path}: {error}") from error


def _number(override: Override) -> dict[str, object]:
    if override.weight is not None:
        return {"weight": override.weight}
    entropy = override.entropy
    return {"entropy": entropy if entropy is not None and math.isfinite(entropy) else "inf"}


def _text(data: Mapping[str, object], key: str, most: int) -> str:
    value = data.get(key, "")
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise RejectedError(
            f"{key}: {str(value)[:40]!r} is not allowed; "
            f"it must be printable text of at most {most} characters"
        )
    return value.strip()


def _by_hand(path: Path, name: str, item: object) -> ByHand:
    where = f"nodes.{name}"
    if not isinstance(item, dict) or not item.keys() <= {"drain", "override"}:
        raise _unusable(path, where, item, "it must be an object with drain and override")
    drain, override = item.get("drain"), item.get("override")
    number = note = None
    if override is not None:
        note = _note(path, f"{where}.override", override)
        try:
            number = parse_override(
                {key: value for key, value in override.items() if key not in _NOTE_KEYS}
            )
        except RejectedError as error:
            raise _unusable(path, f"{where}.override", override, str(error)) from error
    return ByHand(
        None if drain is None else _note(path, f"{where}.drain", drain, exact=True), number, note
    )


_NOTE_KEYS = frozenset(("who", "at_unix_s", "why"))


def _note(path: Path, where: str, data: object, exact: bool = False) -> Note:
    if not isinstance(data, dict) or (exact and not data.keys() <= _NOTE_KEYS):
        raise _unusable(path, where, data, "it must be an object with who, at_unix_s and why")
    at_unix_s: Any = data.get("at_unix_s")
    number = isinstance(at_unix_s, (int, float)) and not isinstance(at_unix_s, bool)
    if not number or not math.isfinite(at_unix_s):
        raise _unusable(path, f"{where}.at_unix_s", at_unix_s, "it must be unix seconds")
    try:
        return parse_note(data, float(at_unix_s))
    except RejectedError as error:
        raise _unusable(path, where, data, str(error)) from error


def _unusable(path: Path, name: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(str(path), [FieldError(name, value, allowed)])
