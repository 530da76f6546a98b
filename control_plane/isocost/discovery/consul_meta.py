"""A node as the meta of a Consul service instance, and back: Consul keeps short strings only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from isocost.errors import IN_FORCE, ConfigError, FieldError
from isocost.model import MAX_EPOCH_DIGITS, Model, Node

#: Consul's own limits, of a service's meta.
MAX_PAIRS = 64
MAX_VALUE_BYTES = 512

#: Models are one JSON text, cut into as many pieces as it takes.
_MODELS = "models_"


def require_room(nodes: Sequence[Node]) -> None:
    """ConfigError names the fields that Consul cannot keep."""
    errors = []
    for index, node in enumerate(nodes):
        try:
            encode(node)
        except ValueError as error:
            field, _, allowed = str(error).partition(": ")
            errors.append(FieldError(f"nodes.{index}.{field}", None, allowed))
    if errors:
        raise ConfigError(IN_FORCE, errors)


def encode(node: Node) -> dict[str, str]:
    """ValueError("FIELD: ...") names the field that Consul cannot keep."""
    meta = {
        "node": node.name,
        "start_epoch": node.instance_id.rpartition("@")[2],
        "rack": node.rack,
        "host": node.host,
        "gpu_kind": node.gpu_kind,
        "gpu_count": str(node.gpu_count),
        "min_input_tokens": str(node.min_input_tokens),
        "max_input_tokens": str(node.max_input_tokens),
    }
    for field, value in meta.items():
        if len(value.encode()) > MAX_VALUE_BYTES:
            raise ValueError(f"{field}: Consul keeps at most {MAX_VALUE_BYTES} bytes of it")
    # ASCII, so that a cut is never within a character.
    text = json.dumps([_model(model) for model in node.models], separators=(",", ":"))
    most = (MAX_PAIRS - len(meta)) * MAX_VALUE_BYTES
    if len(text) > most:
        raise ValueError(f"models: Consul keeps at most {most} bytes of them, they are {len(text)}")
    for index, start in enumerate(range(0, len(text), MAX_VALUE_BYTES)):
        meta[f"{_MODELS}{index}"] = text[start : start + MAX_VALUE_BYTES]
    return meta


def decode(meta: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    """The keys of a node's settings that are there, and its start (unix seconds, 0 = not known).
    ValueError says what cannot be read; whether it is allowed is not checked.
    """
    data: dict[str, Any] = {"name": meta["node"]} if "node" in meta else {}
    data |= {key: meta[key] for key in ("rack", "host", "gpu_kind") if key in meta}
    data |= {
        key: _number(key, meta[key])
        for key in ("gpu_count", "min_input_tokens", "max_input_tokens")
        if key in meta
    }
    pieces: list[str] = []
    while (piece := meta.get(f"{_MODELS}{len(pieces)}")) is not None:
        pieces.append(piece)
    if pieces:
        try:
            data["models"] = json.loads("".join(pieces))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{_MODELS}*: not JSON: {error}") from error
    return data, _number("start_epoch", meta.get("start_epoch", "0"))


def _model(model: Model) -> dict[str, Any]:
    """What differs from the defaults."""
    return {
        field.name: value
        for field in dataclasses.fields(Model)
        if (value := getattr(model, field.name)) != field.default
    }


def _number(key: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_EPOCH_DIGITS):
        raise ValueError(f"{key}: {text[: MAX_EPOCH_DIGITS + 1]!r} is no number")
    return int(text)
