"""Reads settings: YAML parsed once into frozen types, refused field by field."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from isocost.config_types import StrictSettings
from isocost.errors import ConfigError, FieldError, told_key
from isocost.yaml_text import parse_yaml

Config = TypeVar("Config", bound=StrictSettings)


#: A configuration of thousands of models or nodes is a few MiB; a longer one is another file.
MAX_BYTES = 16 * 2**20

#: Where something with parts is wanted and a text is there, that may be a line with a secret that
#: lacks a blank after its key.
_KIND_ONLY = frozenset(("model_type", "dict_type", "mapping_type", "tuple_type", "list_type"))


def load(kind: type[Config], path: Path) -> Config:
    """Read a YAML file into ``kind``; ConfigError names every refused field."""
    return parse_text(kind, read(path), str(path))


def read(path: Path) -> str:
    """The text of a configuration file; ConfigError says why it cannot be read."""
    try:
        return _content(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _of_file(str(path), f"not readable: {reason}") from error


def _content(path: Path) -> bytes:
    # Nobody may write to a FIFO: without O_NONBLOCK its opening waits.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _of_file(str(path), "not readable: it is no regular file")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _of_file(str(path), f"it has more than {MAX_BYTES} bytes, which is the most allowed")
    return content


def _of_file(source: str, problem: str) -> ConfigError:
    return ConfigError(source, [FieldError("(file)", None, problem)])


def parse_text(kind: type[Config], text: str, source: str) -> Config:
    """Check YAML against ``kind``; ConfigError names every refused field."""
    try:
        data = parse_yaml(text)
    except ValueError as error:
        raise _of_file(source, f"not YAML: {error}") from error
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
    path = ".".join(told_key(part) for part in item["loc"]) or "(top level)"
    if item["type"] == "missing":
        return FieldError(path, None, "it is required")
    if item["type"] == "extra_forbidden":
        # Whatever it was meant to be, its value may be a secret.
        known = ", ".join(_siblings(kind, item["loc"]))
        return FieldError(path, None, f"unknown key; known here: {known}")
    # YAML has lists, no tuples.
    allowed = item["msg"].removeprefix("Value error, ").replace("valid tuple", "valid list")
    allowed = re.sub(r"valid dictionary( or instance of \w+)?", "valid mapping", allowed)
    allowed = allowed[0].lower() + allowed[1:]
    if item["type"] in _KIND_ONLY and isinstance(item["input"], str):
        return FieldError(path, None, f"a string is not allowed; {allowed}")
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
