"""Reads settings: YAML parsed once into frozen types, refused field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from isocost.config_types import StrictSettings
from isocost.errors import ConfigError, FieldError

Config = TypeVar("Config", bound=StrictSettings)


class _UniqueKeys(yaml.SafeLoader):
    """Of two equal keys YAML itself would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is there twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


def load(kind: type[Config], path: Path) -> Config:
    """Read a YAML file into ``kind``; ConfigError names every refused field."""
    return parse_text(kind, read(path), str(path))


def read(path: Path) -> str:
    """The text of a configuration file; ConfigError says why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            str(path), [FieldError("(file)", None, f"not readable: {reason}")]
        ) from error


def parse_text(kind: type[Config], text: str, source: str) -> Config:
    """Check YAML against ``kind``; ConfigError names every refused field."""
    try:
        data = yaml.load(text, _UniqueKeys)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # PyYAML itself fails with the latter two on impossible dates and on deep nesting.
        raise ConfigError(source, [FieldError("(file)", None, f"not YAML: {error}")]) from error
    return parse(kind, {} if data is None else data, source)


def parse(kind: type[Config], data: object, source: str) -> Config:
    """Check plain data against ``kind``; ConfigError names every refused field."""
    try:
        config = kind.model_validate(data)
    except ValidationError as error:
        items = error.errors()
        # A list that lacks what was refused in it is too short as well: that says nothing new.
        inner = {item["loc"][:length] for item in items for length in range(len(item["loc"]))}
        errors = [_field_error(kind, item) for item in items if item["loc"] not in inner]
        raise ConfigError(source, errors) from error
    if contradictions := config.contradictions():
        raise ConfigError(source, contradictions)
    return config


def _field_error(kind: type[BaseModel], item: Any) -> FieldError:
    path = ".".join(str(part) for part in item["loc"]) or "(top level)"
    if item["type"] == "extra_forbidden":
        allowed = "unknown key; known here: " + ", ".join(_siblings(kind, item["loc"]))
    elif item["type"] == "missing":
        return FieldError(path, None, "it is required")
    else:
        # YAML has lists, no tuples.
        allowed = item["msg"].removeprefix("Value error, ").replace("valid tuple", "valid list")
        allowed = allowed[0].lower() + allowed[1:]
    return FieldError(path, item["input"], allowed)


def _siblings(kind: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys allowed beside the last part of ``loc``."""
    current: Any = kind
    for part in loc[:-1]:
        if isinstance(part, int):
            continue
        current = current.model_fields[part].annotation
        args = [a for a in getattr(current, "__args__", ()) if isinstance(a, type)]
        current = next((a for a in args if issubclass(a, BaseModel)), current)
    return sorted(current.model_fields)
