"""The published schemas are those of the code, name every field, and agree with the parser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from isocost.cli.main import main
from isocost.config_file import parse
from isocost.config_schema import KINDS, config_schema
from isocost.errors import ConfigError

ROOT = Path(__file__).parents[2]
NODE = {"name": "n", "address": "[::1]:80", "rack": "r", "host": "h"}
AGENT_NODE = NODE | {"metrics_url": "http://h/metrics", "dcgm_url": "http://h/"}


def errors(kind: str, data: object) -> list[str]:
    """What the schema has against it, by dotted field."""
    validator = Draft202012Validator(config_schema(kind))
    return [".".join(map(str, item.absolute_path)) for item in validator.iter_errors(data)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_published_schema_is_current(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema", kind]) == 0
    published = (ROOT / "docs" / "schema" / f"{kind}.json").read_text()
    assert capsys.readouterr().out == published, "run make schema"
    Draft202012Validator.check_schema(json.loads(published))


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_has_words(kind: str) -> None:
    schema = config_schema(kind)
    objects = {kind: schema, **schema["$defs"]}
    silent = [
        f"{name}.{field}"
        for name, item in objects.items()
        for field, content in item["properties"].items()
        if not content["description"]
    ]
    assert silent == [], "they belong into config_words.py"
    assert (schema["$schema"], schema["$id"]) == (
        "https://json-schema.org/draft/2020-12/schema",
        f"urn:isocost:config:{kind}",
    )


@pytest.mark.parametrize("kind", ["control-plane", "agent"])
def test_the_example_configurations_fit_their_schema(kind: str) -> None:
    data = yaml.safe_load((ROOT / "docs" / "examples" / f"{kind}.yaml").read_text())
    assert errors(kind, data) == []


def good() -> Iterator[tuple[str, Any]]:
    yield "control-plane", {}
    yield "control-plane", {"listen": "[::]:1", "http": "localhost:65535", "state_dir": None}
    yield "control-plane", {"filter": {"model_from": "header:x-m,jwt:a.b,body", "alternates": 0}}
    yield "control-plane", {"entropy": {"capacity": {"H100": 2}}, "models": [{"name": "m"}]}
    yield "control-plane", {"history": {"redis_url": "unix:///run/redis.sock"}}
    yield "agent", {"name": "a", "http": None, "nodes": [AGENT_NODE]}
    yield "nodes", {"nodes": [NODE | {"models": [{"name": "m", "aliases": ["x"]}]}]}
    yield "nodes", {"nodes": [NODE | {"address": "gpu-7.example.org:80"}]}
    yield "nodes", {"nodes": []}


def bad() -> Iterator[tuple[str, Any, str]]:
    yield "control-plane", {"listen": "localhost"}, "listen"
    yield "control-plane", {"listen": "localhost:65536"}, "listen"
    yield "control-plane", {"listen": "localhost:0"}, "listen"
    yield "control-plane", {"tick_ms": 19}, "tick_ms"
    yield "control-plane", {"tick_ms": "200"}, "tick_ms"
    yield "control-plane", {"filter": {"policy": "best"}}, "filter.policy"
    yield "control-plane", {"filter": {"model_from": "cookie:x"}}, "filter.model_from"
    yield "control-plane", {"filter": {"user_from": "header:X"}}, "filter.user_from"
    yield "control-plane", {"filter": {"projection": 1}}, "filter.projection"
    yield "control-plane", {"entropy": {"capacity": {"H100": 0}}}, "entropy.capacity.H100"
    yield "control-plane", {"states": {"eject_ratio": 1.1}}, "states.eject_ratio"
    yield "control-plane", {"models": "m"}, "models"
    yield "control-plane", [], ""
    yield "agent", {"name": "a", "nodes": []}, "nodes"
    yield "agent", {"name": "a", "nodes": [AGENT_NODE], "procfs": "proc"}, "procfs"
    yield "agent", {"name": "a b", "nodes": [AGENT_NODE]}, "name"
    yield "nodes", {"nodes": [NODE | {"address": "10.1:80"}]}, "nodes.0.address"
    yield "nodes", {"nodes": [NODE | {"address": "::1:80"}]}, "nodes.0.address"
    yield "nodes", {"nodes": [NODE | {"address": "[fe80::1%eth0]:80"}]}, "nodes.0.address"
    yield "nodes", {"nodes": [NODE | {"address": "256.0.0.1:80"}]}, "nodes.0.address"
    yield "nodes", {"nodes": [NODE | {"gpu_count": 0}]}, "nodes.0.gpu_count"


@pytest.mark.parametrize(("kind", "data"), [*good()])
def test_what_the_parser_takes_fits_the_schema(kind: str, data: Any) -> None:
    parse(KINDS[kind], data, "test")
    assert errors(kind, data) == []


@pytest.mark.parametrize(("kind", "data", "field"), [*bad()])
def test_what_the_parser_refuses_does_not_fit_the_schema(kind: str, data: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(KINDS[kind], data, "test")
    assert [item.field for item in caught.value.fields] == [field or "(top level)"]
    assert set(errors(kind, data)) == {field}


@pytest.mark.parametrize(
    ("kind", "data", "missing"),
    [("agent", {"nodes": [AGENT_NODE]}, "name"), ("nodes", {"nodes": [{"name": "n"}]}, "address")],
)
def test_missing_and_unknown_fields_do_not_fit(kind: str, data: Any, missing: str) -> None:
    for wrong in (data, {"nodse": []}):
        with pytest.raises(ConfigError) as caught:
            parse(KINDS[kind], wrong, "test")
        assert caught.value.fields
        assert errors(kind, wrong)
    with pytest.raises(ConfigError, match=missing):
        parse(KINDS[kind], data, "test")
