"""The files' JSON schema, for editors and for checks before a file reaches a machine.

It knows every field and its range. What two fields may not be together, only `isocost config
check` and the daemons know.
"""

from __future__ import annotations

from typing import Any

from isocost.config import AgentConfig, ControlPlaneConfig, NodeListFile
from isocost.config_types import StrictSettings
from isocost.config_words import WORDS

#: The files that there are, by their names in commands.
KINDS: dict[str, type[ControlPlaneConfig | AgentConfig | NodeListFile]] = {
    "control-plane": ControlPlaneConfig,
    "agent": AgentConfig,
    "nodes": NodeListFile,
}
_TITLES = {
    "control-plane": "Isocost control plane configuration",
    "agent": "Isocost agent configuration",
    "nodes": "Isocost discovery file",
}


def config_schema(kind: str) -> dict[str, Any]:
    """The schema of one of KINDS as plain data."""
    model = KINDS[kind]
    schema = model.model_json_schema()
    classes = {model.__name__: model, **_inner(model)}
    _describe(schema, classes[model.__name__])
    for name, definition in schema.get("$defs", {}).items():
        _describe(definition, classes[name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:isocost:config:{kind}",
        **schema,
        "title": _TITLES[kind],
    }


def _describe(schema: dict[str, Any], model: type[StrictSettings]) -> None:
    """Give each field its words; pydantic's titles only repeat its name."""
    # The class's own words are for who reads the code.
    schema.pop("title", None)
    schema.pop("description", None)
    for field, content in schema["properties"].items():
        content.pop("title", None)
        content["description"] = _words(model, field)


def _words(model: type[StrictSettings], field: str) -> str:
    """Its own, else those that it inherits; none is what a test forbids."""
    told = (WORDS.get(base.__name__, {}).get(field) for base in model.__mro__)
    return next(filter(None, told), "")


def _inner(model: type[StrictSettings]) -> dict[str, type[StrictSettings]]:
    """The settings classes in a settings class, by name, however deep."""
    found: dict[str, type[StrictSettings]] = {}
    for field in model.model_fields.values():
        for one in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(one, type) and issubclass(one, StrictSettings):
                found |= {one.__name__: one, **_inner(one)}
    return found
